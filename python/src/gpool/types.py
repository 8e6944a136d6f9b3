"""Types of the API: dictionaries as the server sends and takes them.

tools/api_types.py writes this file from docs/openapi.json, which describes each field. A newer
server may send more fields.
"""

from __future__ import annotations

from typing import Any, Literal, Optional, TypedDict, Union

#: State of a job.
JobState = Literal[
    "held",
    "waiting",
    "pending",
    "starting",
    "running",
    "paused",
    "stopping",
    "succeeded",
    "failed",
    "cancelled",
    "timed_out",
    "lost",
]

#: Type of an event.
EventType = Literal[
    "job_state",
    "job_idle",
    "job_moved",
    "node_changed",
    "node_membership",
    "notified",
    "payer_notified",
    "project_changed",
    "reservation_changed",
    "resync",
    "other",
]

#: A number in the API's unit, or text with a unit.
Quantity = Union[float, str]

#: Time.
Time = str


class Activate(TypedDict, total=False):
    """Software to activate before a job's program starts: `conda`, `venv` or `modules`."""

    conda: str
    modules: Modules
    venv: str


class Ahead(TypedDict):
    """A job before another job in the queue."""

    gpus: str
    job: str
    priority: int
    user: str


class _AlternativeRequired(TypedDict):
    """Keys of each `Alternative`."""

    change: str
    flags: str
    helps: bool
    text: str


class Alternative(_AlternativeRequired, total=False):
    """A possible change, and its simulated effect."""

    eta: Optional[Eta]
    gain_s: Optional[float]


class _ArrayElementRequired(TypedDict):
    """Keys of each `ArrayElement`."""

    array: str
    index: int
    params: list[list[str]]


class ArrayElement(_ArrayElementRequired, total=False):
    """The parameter values of one array element."""

    item: Optional[str]


class _ArrayStatusRequired(TypedDict):
    """Keys of each `ArrayStatus`."""

    indexes: str
    n_by_state: dict[str, int]
    n_elements: int


class ArrayStatus(_ArrayStatusRequired, total=False):
    """The array of a job."""

    max_fails: Optional[int]
    max_parallel: Optional[int]
    n_gpus: int
    ran_s: float


class _AttemptedRequired(TypedDict):
    """Keys of each `Attempted`."""

    again: str
    attempt: int
    ended_at: Time
    outcome: str


class Attempted(_AttemptedRequired, total=False):
    """An earlier attempt of a job."""

    cause: Optional[str]
    cause_text: Optional[str]
    exit_code: Optional[int]
    started_at: Optional[Time]


class BulkAnswer(TypedDict):
    """The jobs that a bulk submission created: consecutive numbers, in the order of the lines."""

    first: str
    n_jobs: int
    repeated: bool


class _CostRequired(TypedDict):
    """Keys of each `Cost`."""

    cost: float
    currency: str
    unpriced_gpu_hours: float
    waited_cost: float


class Cost(_CostRequired, total=False):
    """The cost of GPU time."""

    energy_cost: Optional[float]
    idle_cost: Optional[float]


class _DrainRequired(TypedDict):
    """Keys of each `Drain`."""

    at_deadline: str
    reason: str
    since: Time
    who: str


class Drain(_DrainRequired, total=False):
    """The drain of a node or device."""

    by: Optional[Time]


class _EtaRequired(TypedDict):
    """Keys of each `Eta`."""

    as_of: Time
    basis: str


class Eta(_EtaRequired, total=False):
    """Forecast start of a waiting job: three percentiles in ascending order."""

    later_than: Optional[Time]
    p10: Optional[Time]
    p50: Optional[Time]
    p90: Optional[Time]
    planned_at: Optional[Time]


_EventKeywords = TypedDict(
    "_EventKeywords",
    {
        "from": "list[int]",
    },
    total=False,
)


class _EventRequired(_EventKeywords):
    """Keys of each `Event`."""

    id: str
    seq: int
    time: Time
    type: EventType


class Event(_EventRequired, total=False):
    """One event of the stream."""

    exit_code: Optional[int]
    given_up: Optional[str]
    job: str
    membership: str
    node: str
    payer: str
    project: str
    reservation: str
    since: Optional[Time]
    state: JobState
    to: list[int]


class _FreesRequired(TypedDict):
    """Keys of each `Frees`."""

    because: str
    job: str
    n_gpus: int
    user: str


class Frees(_FreesRequired, total=False):
    """A running job that must end before another job can start."""

    p10: Optional[Time]
    p90: Optional[Time]


class _GangStatusRequired(TypedDict):
    """Keys of each `GangStatus`."""

    nodes: int
    tasks: list[TaskStatus]
    tasks_per_node: int


class GangStatus(_GangStatusRequired, total=False):
    """The tasks of a job with several tasks."""

    anywhere: bool
    launcher: Optional[int]
    nodes_most: Optional[int]


class _GpuRequired(TypedDict):
    """Keys of each `Gpu`."""

    allowed: bool
    index: int
    memory_total: int
    model: str
    model_short: str
    node: str
    pci_bus: str
    state: Literal[
        "free",
        "busy",
        "held_idle",
        "unmanaged",
        "not_allowed",
        "drained",
        "divided",
        "unhealthy",
        "lost",
        "unknown",
    ]
    unmanaged: list[GpuProcess]
    uuid: str


class Gpu(_GpuRequired, total=False):
    """A device, its state, and the jobs that use it."""

    detail: GpuDetail
    drain: Optional[Drain]
    enforcement: GpuEnforcement
    guarantees_late: int
    guests: list[GpuGuest]
    health_why: Optional[str]
    idle: list[GpuIdle]
    job: Optional[str]
    links: dict[str, str]
    loans: list[GpuLoan]
    memory_for_shares: int
    memory_free: Optional[int]
    memory_used: Optional[int]
    mig: Optional[GpuMig]
    minor: Optional[int]
    numa: Optional[int]
    part_of: Optional[GpuPartOf]
    power_w: Optional[float]
    project: Optional[str]
    reservations: list[ReservedHere]
    shares: list[GpuShare]
    strays: list[GpuProcess]
    temperature_c: Optional[int]
    user: Optional[str]
    utilization: Optional[float]


class GpuDetail(TypedDict, total=False):
    """Clocks, energy, and activity of the units of a device."""

    dram_active: Optional[float]
    energy_j: Optional[float]
    errors: GpuErrors
    memory_temperature_c: Optional[int]
    nvlink: Optional[int]
    pcie_received: Optional[int]
    pcie_sent: Optional[int]
    power_capped_s: Optional[float]
    sm_active: Optional[float]
    sm_clock_mhz: Optional[int]
    tensor_active: Optional[float]
    thermal_capped_s: Optional[float]


class GpuEnforcement(TypedDict):
    """Levels of enforcement on a device: `booked`, `monitored`, `capped` or `isolated`."""

    mechanisms: list[GpuMechanism]
    share: str
    whole: str


class GpuErrors(TypedDict, total=False):
    """Errors of a device."""

    ecc_corrected: Optional[int]
    ecc_uncorrected: Optional[int]
    remap_failed: Optional[bool]
    rows_corrected: Optional[int]
    rows_uncorrected: Optional[int]
    xids: dict[str, int]


class _GpuGuestRequired(TypedDict):
    """Keys of each `GpuGuest`."""

    booked: int
    job: str


class GpuGuest(_GpuGuestRequired, total=False):
    """A job on a device that it did not book."""

    stuck: bool


class GpuIdle(TypedDict):
    """A running job that does not use its GPUs."""

    job: str
    since: Time


class _GpuLoanRequired(TypedDict):
    """Keys of each `GpuLoan`."""

    job: str
    memory: int
    since: Time


class GpuLoan(_GpuLoanRequired, total=False):
    """Memory of a device that a job uses above its request."""

    keep: Optional[int]


class _GpuMechanismRequired(TypedDict):
    """Keys of each `GpuMechanism`."""

    name: str
    works: bool


class GpuMechanism(_GpuMechanismRequired, total=False):
    """A mechanism that holds jobs to what they were given."""

    why_not: Optional[str]


class GpuMig(TypedDict):
    """MIG mode of a device that supports MIG."""

    enabled: bool
    instances: list[GpuMigInstance]


class GpuMigInstance(TypedDict):
    """A MIG instance."""

    compute_slices: int
    memory: int
    uuid: str


class GpuPartOf(TypedDict):
    """The parent device of a MIG instance, and the size of the instance."""

    compute_slices: int
    gpus: float
    index: int


class _GpuProcessRequired(TypedDict):
    """Keys of each `GpuProcess`."""

    pid: int
    seen_since: Time


class GpuProcess(_GpuProcessRequired, total=False):
    """A compute process on a device that gpool did not start."""

    memory: Optional[int]
    name: Optional[str]
    user: Optional[str]


class _GpuShareRequired(TypedDict):
    """Keys of each `GpuShare`."""

    enforcement: str
    job: str
    memory: int
    memory_limit: int
    part: float
    project: str
    user: str


class GpuShare(_GpuShareRequired, total=False):
    """A job's fraction of a shared device."""

    can_move: bool
    compute: Optional[float]
    compute_enforcement: str
    counted: bool
    memory_granted: Optional[int]
    memory_over: Optional[int]
    stays_why: Optional[str]
    used: Optional[int]


class _GroupStatusRequired(TypedDict):
    """Keys of each `GroupStatus`."""

    n_by_state: dict[str, int]
    n_jobs: int
    name: str


class GroupStatus(_GroupStatusRequired, total=False):
    """The group that a row of a list stands for."""

    n_by_gpus: dict[str, int]


class _HintRequired(TypedDict):
    """Keys of each `Hint`."""

    code: str
    text: str


class Hint(_HintRequired, total=False):
    """A suggestion for the next request, with its numbers."""

    flags: Optional[str]


class _JobRequired(TypedDict):
    """Keys of each `Job`."""

    forecast: JobForecast
    id: str
    name: str
    placement: list[PlacedOn]
    project: str
    request: JobCreate
    run: JobRun
    state: JobState
    submitted_at: Time
    usage: JobUsage
    user: str
    version: int
    wait: JobWait


class Job(_JobRequired, total=False):
    """A job."""

    array: Optional[ArrayStatus]
    element: Optional[ArrayElement]
    gang: Optional[GangStatus]
    group: Optional[GroupStatus]
    hints: list[Hint]
    joins: Optional[str]
    notes: list[str]
    private: bool
    retry_of: Optional[str]
    setup_job: Optional[str]


class JobChanged(TypedDict):
    """The result for one job."""

    id: str
    state: JobState


class JobCreate(TypedDict, total=False):
    """A job to submit."""

    activate: list[Activate]
    after: list[str]
    after_one: list[str]
    allow_unsatisfiable: bool
    array: Optional[str]
    begin: Optional[Time]
    checkpoint: Optional[str]
    command: list[str]
    compat: list[str]
    container_user: Optional[str]
    cpus: Optional[Quantity]
    deadline: Optional[Time]
    directory: Optional[str]
    download: list[str]
    enforce: Optional[str]
    environment: dict[str, str]
    environment_bytes: Optional[str]
    exclusive: bool
    exits: list[str]
    gpu_memory: Optional[Quantity]
    gpu_share: Optional[str]
    gpus: Optional[str]
    grace: Optional[Quantity]
    group: Optional[str]
    hold: bool
    idle_after: Optional[Quantity]
    image: Optional[str]
    image_login: Optional[str]
    items: Optional[list[Any]]
    kind: Optional[str]
    launcher: Optional[int]
    max_fails: Optional[int]
    max_parallel: Optional[int]
    mem: Optional[Quantity]
    metric: Optional[str]
    mounts: list[str]
    name: Optional[str]
    node: list[str]
    nodes: Optional[Quantity]
    not_node: list[str]
    note: Optional[str]
    notify: list[str]
    on_node_lost: Optional[str]
    on_unmet: Optional[str]
    open_mode: Optional[str]
    origin: Optional[Origin]
    params: list[Param]
    parts: list[str]
    pool: Optional[str]
    preemptible: Optional[bool]
    priority: Optional[int]
    project: Optional[str]
    pty: Optional[Window]
    pull: Optional[str]
    requeue: Optional[bool]
    retry: Optional[RetryPolicy]
    script: Optional[ScriptText]
    secrets: list[str]
    setup: Optional[Setup]
    share_with: Optional[str]
    signal_before: Optional[str]
    stderr: Optional[str]
    stdin: Optional[str]
    stdout: Optional[str]
    stop_signal: Optional[str]
    table: Optional[ParamTable]
    tasks: Optional[Quantity]
    tasks_per_node: Optional[int]
    time: Optional[Quantity]
    topology: Optional[str]
    torchrun: bool
    umask: Optional[int]
    upload: Optional[str]
    where: list[str]
    workdir: Optional[str]
    yields: Optional[str]


class _JobEventRequired(TypedDict):
    """Keys of each `JobEvent`."""

    job: str
    text: str
    time: Time
    type: str


class JobEvent(_JobEventRequired, total=False):
    """An event in the history of a job, or a decision about it."""

    by: Optional[str]
    seq: Optional[int]


class JobForecast(TypedDict, total=False):
    """Expected times of a job."""

    eta: Optional[Eta]
    expected_run_s: Optional[float]


class _JobMetricRequired(TypedDict):
    """Keys of each `JobMetric`."""

    name: str
    points: list[Optional[float]]


class JobMetric(_JobMetricRequired, total=False):
    """A metric that a job reports about its own work."""

    last: Optional[float]


class JobMetrics(TypedDict):
    """A job over time."""

    cpu: list[Optional[float]]
    gpu_memory: list[Optional[float]]
    gpu_utilization: list[Optional[float]]
    memory: list[Optional[float]]
    metrics: list[JobMetric]
    read: list[Optional[float]]
    start: Time
    step_s: int
    written: list[Optional[float]]


class _JobRunRequired(TypedDict):
    """Keys of each `JobRun`."""

    attempt: int
    n_retries: int


class JobRun(_JobRunRequired, total=False):
    """Times and results of a job: of its current or last attempt, and a list of earlier
    attempts."""

    attempts: list[Attempted]
    can_retry: Optional[bool]
    cause: Optional[str]
    cause_text: Optional[str]
    ended_at: Optional[Time]
    exit_code: Optional[int]
    freed: bool
    idle_since: Optional[Time]
    logs: Optional[LogFiles]
    not_released: Optional[str]
    output_kept_until: Optional[Time]
    paused_since: Optional[Time]
    retry_until: Optional[Time]
    signal: Optional[int]
    stalled: Optional[str]
    started_at: Optional[Time]
    steps: list[JobStep]
    xids: list[JobXid]


class JobStep(TypedDict):
    """An ended step of a job: processes that one `srun` in it started."""

    ended_at: Time
    exit_code: int
    n_tasks: int
    name: str
    nodes: list[str]
    number: int
    started_at: Time
    usage: Usage


class _JobUsageRequired(TypedDict):
    """Keys of each `JobUsage`."""

    gpu_hours: float


class JobUsage(_JobUsageRequired, total=False):
    """GPU time, resource usage and cost of a job."""

    cost: list[Cost]
    live: Optional[LiveUsage]
    metrics: dict[str, float]
    total: Optional[Usage]


class _JobWaitRequired(TypedDict):
    """Keys of each `JobWait`."""

    reasons: list[Reason]
    waited_s: float


class JobWait(_JobWaitRequired, total=False):
    """Why a job waits, and how long it has waited."""

    held_by: Optional[str]
    held_by_admin: Optional[str]
    n_more_reasons: int
    release_at: Optional[Time]


class _JobXidRequired(TypedDict):
    """Keys of each `JobXid`."""

    count: int
    index: int
    node: str
    of_program: bool
    xid: int


class JobXid(_JobXidRequired, total=False):
    """A kind of Xid that a GPU reported while a job had it."""

    meaning: Optional[str]


class LiveUsage(TypedDict, total=False):
    """Usage of a running job so far: the sum over its tasks."""

    cpu_s: Optional[float]
    memory: Optional[int]
    memory_peak: Optional[int]
    read_bytes: Optional[int]
    written_bytes: Optional[int]


class LogFiles(TypedDict, total=False):
    """Output files that gpool stores for the last run of a job, on the server's machine."""

    stderr: Optional[str]
    stdout: Optional[str]


class Modules(TypedDict):
    """Environment modules to load."""

    init: str
    names: list[str]


class _NodeRequired(TypedDict):
    """Keys of each `Node`."""

    connected: bool
    cpus: float
    cpus_used: float
    devices_from: str
    memory: int
    memory_used: int
    n_gpus: int
    n_gpus_free: int
    name: str
    pool: str
    system: str
    tasks: int
    tasks_used: int
    version: str


class Node(_NodeRequired, total=False):
    """A node of the cluster."""

    address: Optional[str]
    agent_cpu_percent: Optional[float]
    agent_memory: Optional[int]
    agent_refusal: Optional[str]
    clock_offset_ms: Optional[int]
    container_engine: Optional[str]
    container_remarks: list[str]
    drain: Optional[Drain]
    labels: list[str]
    last_message_at: Optional[Time]
    membership: str
    n_gpus_closed: int
    n_gpus_drained: int
    reservations: list[ReservedHere]
    silent_since: Optional[Time]


class NotifyCounts(TypedDict):
    """Counts of messages."""

    dropped: int
    given_up: int
    taken: int
    waiting: int


class _OriginRequired(TypedDict):
    """Keys of each `Origin`."""

    line: str


class Origin(_OriginRequired, total=False):
    """How the caller submitted a job."""

    script: Optional[str]


class Param(TypedDict):
    """A parameter of an array and its values."""

    name: str
    values: list[str]


class ParamTable(TypedDict):
    """Array parameters as a table with one row of values per element."""

    names: list[str]
    rows: list[list[str]]


class Place(TypedDict):
    """The position of a job in the queue."""

    ahead: list[Ahead]
    n_ahead: int
    n_pending: int


class _PlacedOnRequired(TypedDict):
    """Keys of each `PlacedOn`."""

    devices: list[int]
    node: str
    uuids: list[str]


class PlacedOn(_PlacedOnRequired, total=False):
    """The placement of one task."""

    booked: Optional[list[int]]
    gpus: Optional[float]


class _PolicyInfoRequired(TypedDict):
    """Keys of each `PolicyInfo`."""

    device_strategy: Literal["sequential", "random", "pack", "spread"]
    escalate_after_s: int
    order: list[str]
    preset: str
    user_priority_max: int


class PolicyInfo(_PolicyInfoRequired, total=False):
    """The policy of the scheduler."""

    notes: list[str]
    settings: dict[str, str]
    starts: list[StartChange]


_ProblemKeywords = TypedDict(
    "_ProblemKeywords",
    {
        "try": "list[str]",
    },
    total=False,
)


class _ProblemRequired(_ProblemKeywords):
    """Keys of each `Problem`."""

    code: str


class Problem(_ProblemRequired, total=False):
    """An error: what failed, why, and what to do."""

    detail: str
    line: Optional[int]
    status: int
    title: str
    type: str
    why: list[str]


class _QuotaLoanRequired(TypedDict):
    """Keys of each `QuotaLoan`."""

    gpus: float
    when_asked: bool


class QuotaLoan(_QuotaLoanRequired, total=False):
    """A loan between two projects."""

    basis: Optional[str]
    project: Optional[str]
    until: Optional[Time]


class QuotaOverview(TypedDict):
    """Quota, usage and loans of all projects at one time."""

    gpus: float
    projects: list[QuotaRow]
    returns: list[QuotaReturn]
    shared: bool
    warnings: list[str]


class _QuotaPartRequired(TypedDict):
    """Keys of each `QuotaPart`."""

    held: float


class QuotaPart(_QuotaPartRequired, total=False):
    """Quota and usage of a project for the GPUs of one model, or in one pool."""

    guaranteed: Optional[Quantity]
    limit: Optional[Quantity]
    model: Optional[str]
    pool: Optional[str]
    share: Optional[float]


class _QuotaReturnRequired(TypedDict):
    """Keys of each `QuotaReturn`."""

    beneficiary: str
    gpus: list[ReturnedGpu]
    job: str
    project: str
    until: Time
    user: str


class QuotaReturn(_QuotaReturnRequired, total=False):
    """GPUs that a victim releases for another job."""

    beneficiary_project: Optional[str]


class _QuotaRowRequired(TypedDict):
    """Keys of each `QuotaRow`."""

    borrows: list[QuotaLoan]
    department: bool
    depth: int
    for_good: float
    guaranteed: Quantity
    held: float
    in_quota: float
    lends: list[QuotaLoan]
    n_pending: int
    on_loan: float
    pending: float
    project: str
    used: float


class QuotaRow(_QuotaRowRequired, total=False):
    """Quota, usage and loans of one project, in GPUs."""

    limit: Optional[Quantity]
    parent: Optional[str]
    parts: list[QuotaPart]
    share: Optional[float]


class Reason(TypedDict):
    """A reason why a job does not start."""

    blocking: bool
    code: str
    text: str


_ReservationKeywords = TypedDict(
    "_ReservationKeywords",
    {
        "for": "str",
        "from": "Time",
    },
    total=False,
)


class _ReservationRequired(_ReservationKeywords):
    """Keys of each `Reservation`."""

    at_begin: str
    gpus: list[ReservedGpu]
    kind: str
    made_at: Time
    made_by: str
    name: str
    nodes: list[str]
    reason: str
    state: str


class Reservation(_ReservationRequired, total=False):
    """A reservation: devices or nodes set aside for a time."""

    beneficiary: Optional[str]
    every: Optional[float]
    gpus_asked: Optional[str]
    until: Optional[Time]
    warnings: list[str]


class _ReservedGpuRequired(TypedDict):
    """Keys of each `ReservedGpu`."""

    node: str
    uuid: str


class ReservedGpu(_ReservedGpuRequired, total=False):
    """A reserved device."""

    index: Optional[int]


_ReservedHereKeywords = TypedDict(
    "_ReservedHereKeywords",
    {
        "for": "str",
        "from": "Time",
    },
    total=False,
)


class _ReservedHereRequired(_ReservedHereKeywords):
    """Keys of each `ReservedHere`."""

    active: bool
    name: str


class ReservedHere(_ReservedHereRequired, total=False):
    """A reservation, as part of a node or device that it reserves."""

    beneficiary: Optional[str]
    until: Optional[Time]


class _RetryPolicyRequired(TypedDict):
    """Keys of each `RetryPolicy`."""

    most: int


class RetryPolicy(_RetryPolicyRequired, total=False):
    """When the server retries a failed job."""

    backoff: Optional[Quantity]
    exits: list[int]
    on: list[str]


class ReturnedGpu(TypedDict):
    """A GPU that a victim releases."""

    gpu: int
    node: str


class _ScriptTextRequired(TypedDict):
    """Keys of each `ScriptText`."""

    name: str


class ScriptText(_ScriptTextRequired, total=False):
    """A script, as it is at submission."""

    base64: Optional[str]
    text: Optional[str]


class _SetupRequired(TypedDict):
    """Keys of each `Setup`."""

    run: str


class Setup(_SetupRequired, total=False):
    """A command that prepares the job."""

    activate: list[Activate]


class _StartChangeRequired(TypedDict):
    """Keys of each `StartChange`."""

    job: str
    user: str


class StartChange(_StartChangeRequired, total=False):
    """A job that would start earlier or later."""

    after: Optional[Time]
    before: Optional[Time]


class _StatusRequired(TypedDict):
    """Keys of each `Status`."""

    gpus: dict[str, int]
    jobs: dict[str, int]
    jobs_ended: int
    nodes: int
    nodes_connected: int
    pid: int
    policy: PolicyInfo
    revision: int
    socket: str
    started_at: Time
    state_dir: str
    term: int
    uptime_s: int
    user: str
    version: str


class Status(_StatusRequired, total=False):
    """Overview of the server and its cluster."""

    lacking: Optional[str]
    mail: bool
    network_fault: Optional[str]
    notifications: NotifyCounts
    reservations: list[Reservation]
    store_fault: Optional[str]
    usage_fault: Optional[str]
    web: Optional[str]
    web_fault: Optional[str]


class _TaskStatusRequired(TypedDict):
    """Keys of each `TaskStatus`."""

    node: str
    rank: int
    state: str


class TaskStatus(_TaskStatusRequired, total=False):
    """One task of a job."""

    cause: Optional[str]
    ended_at: Optional[Time]
    exit_code: Optional[int]
    part: Optional[str]
    started_at: Optional[Time]


class _UsageRequired(TypedDict):
    """Keys of each `Usage`."""

    cpu_system_s: float
    cpu_user_s: float
    memory_peak: int


class Usage(_UsageRequired, total=False):
    """Resource usage of a job."""

    gpu_memory_limit: Optional[int]
    gpu_memory_peak: Optional[int]
    gpu_utilization: Optional[float]
    memory_peak_together: Optional[int]
    objective: Optional[float]
    read_bytes: Optional[int]
    written_bytes: Optional[int]


class Version(TypedDict):
    """Name and version of the server."""

    name: str
    pid: int
    version: str


class _WhyRequired(TypedDict):
    """Keys of each `Why`."""

    as_of: Time
    job: Job
    nodes: list[WhyNode]
    reasons: list[Reason]


class Why(_WhyRequired, total=False):
    """The explanation of why a job waits."""

    alternatives: list[Alternative]
    eta: Optional[Eta]
    eta_missing: Optional[str]
    frees: list[Frees]
    life: list[JobEvent]
    lost: Optional[str]
    n_more_reasons: int
    place: Optional[Place]


class _WhyDeviceRequired(TypedDict):
    """Keys of each `WhyDevice`."""

    index: int
    matches: bool
    model: str
    state: Literal[
        "free",
        "busy",
        "held_idle",
        "unmanaged",
        "not_allowed",
        "drained",
        "divided",
        "unhealthy",
        "lost",
        "unknown",
    ]


class WhyDevice(_WhyDeviceRequired, total=False):
    """A device, for a waiting job."""

    job: Optional[str]
    reserved: Optional[WhyReserved]
    until: Optional[Time]
    until_by: Optional[str]
    user: Optional[str]


class WhyNode(TypedDict):
    """The capacity of one node for a job."""

    connected: bool
    devices: list[WhyDevice]
    n_free: int
    n_matching: int
    name: str


_WhyReservedKeywords = TypedDict(
    "_WhyReservedKeywords",
    {
        "from": "Optional[Time]",
    },
    total=False,
)


class _WhyReservedRequired(_WhyReservedKeywords):
    """Keys of each `WhyReserved`."""

    maintenance: bool


class WhyReserved(_WhyReservedRequired, total=False):
    """Why a job cannot use a device: it is reserved for others, under maintenance, or not reserved
    for the job on a node that allocates only reserved devices."""

    by: Optional[str]
    until: Optional[Time]


class Window(TypedDict):
    """Size of a terminal window, in characters."""

    columns: int
    rows: int
