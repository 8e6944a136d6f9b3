// Shows one moment in all charts of the page, with their values: the one under the pointer, or the
// one that the arrow keys choose in the focused chart. The charts are one stop of the Tab key.
const SVG = "http://www.w3.org/2000/svg";
const PAGE = 10;
const charts = () => [...document.querySelectorAll("svg[data-values]")];
const chartOf = (node) => node instanceof Element ? node.closest("svg[data-values]") : null;

// In milliseconds since 1970; null while none is shown.
let moment = null;

function read(chart) {
  const { start, step, values } = chart.dataset;
  return { start: Number(start), step: Number(step), values: values.split("|") };
}

// The point of a moment; null before the first and after the last one.
function indexOf({ start, step, values }, at) {
  const ix = Math.floor((at - start) / step);
  return at !== null && ix >= 0 && ix < values.length ? ix : null;
}

function textOf({ start, step, values }, ix) {
  const length = step % 60000 === 0 ? "2026-01-01T00:00".length : "2026-01-01T00:00:00".length;
  const at = new Date(start + ix * step).toISOString().slice(0, length).replace("T", " ");
  return `${at}Z: ${values[ix] === "" ? "not measured" : values[ix]}`;
}

function setUp() {
  const focused = chartOf(document.activeElement);
  charts().forEach((chart, nth) => {
    const points = read(chart);
    chart.setAttribute("role", "slider");
    chart.setAttribute("tabindex", chart === focused || (!focused && nth === 0) ? 0 : -1);
    chart.setAttribute("aria-valuemin", 0);
    chart.setAttribute("aria-valuemax", points.values.length - 1);
    describe(chart, points, points.values.length - 1);
  });
  if (moment !== null) show(moment);
}

function describe(chart, points, ix) {
  chart.setAttribute("aria-valuenow", ix);
  chart.setAttribute("aria-valuetext", textOf(points, ix));
}

// Shows a moment; null hides all lines.
function show(at) {
  moment = at;
  for (const chart of charts()) {
    const points = read(chart);
    const ix = indexOf(points, at);
    const text = chart.closest(".plot").parentElement.querySelector(".moment");
    let line = chart.querySelector(".cursor");
    if (ix === null) {
      line?.remove();
      text.textContent = "";
      continue;
    }
    if (!line) {
      line = chart.appendChild(document.createElementNS(SVG, "rect"));
      line.setAttribute("class", "cursor");
      line.setAttribute("width", 2);
      line.setAttribute("y", 8);
      line.setAttribute("height", chart.height.baseVal.value - 28);
    }
    line.setAttribute("x", `${(ix + 0.5) * 100 / points.values.length}%`);
    text.textContent = textOf(points, ix);
    describe(chart, points, ix);
  }
}

function key(event) {
  const chart = chartOf(event.target);
  if (!chart || event.altKey || event.ctrlKey || event.metaKey) return;
  const points = read(chart);
  const last = points.values.length - 1;
  const now = indexOf(points, moment) ?? last;
  const moves = { ArrowLeft: now - 1, ArrowRight: now + 1, PageDown: now - PAGE,
    PageUp: now + PAGE, Home: 0, End: last };
  const others = { ArrowUp: -1, ArrowDown: 1 };
  if (event.key in moves) {
    const ix = Math.min(Math.max(moves[event.key], 0), last);
    show(points.start + ix * points.step);
  } else if (event.key in others) {
    const all = charts();
    const next = all[all.indexOf(chart) + others[event.key]];
    if (next) {
      chart.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    }
  } else if (event.key === "Escape") {
    show(null);
  } else {
    return;
  }
  event.preventDefault();
}

document.addEventListener("pointermove", (event) => {
  const chart = chartOf(event.target);
  if (chart) {
    const { left, width } = chart.getBoundingClientRect();
    const points = read(chart);
    const ix = Math.floor((event.clientX - left) / width * points.values.length);
    show(points.start + ix * points.step);
  } else if (moment !== null && !chartOf(document.activeElement)) {
    show(null);
  }
});
document.addEventListener("focusin", (event) => {
  const chart = chartOf(event.target);
  if (!chart) return;
  const points = read(chart);
  const ix = indexOf(points, moment) ?? points.values.length - 1;
  show(points.start + ix * points.step);
});
document.addEventListener("focusout", (event) => {
  if (chartOf(event.target) && !chartOf(event.relatedTarget)) show(null);
});
document.addEventListener("keydown", key);
document.addEventListener("replaced", setUp);
setUp();
