//! Links the program at fixed addresses. Otherwise each process first writes 93,000 addresses into
//! its tables (fewer after link-time optimization): 0.8 of the 2 ms of the shortest command.
//! Libraries, heap and stacks stay at random addresses.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of_target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}"));
    if of_target("OS").as_deref() == Ok("linux") && of_target("ENV").as_deref() == Ok("gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
