"""Sets options of a UCI engine behind bare pipes, and stops where one is unknown: an engine would ignore it."""


def set_options(process, options):
    """Sends each option of the mapping to a process that has just started; ends the script if the engine does not list one."""
    process.stdin.write("uci\n")
    process.stdin.flush()
    known = set()
    for line in process.stdout:
        if line.startswith("uciok"):
            break
        if line.startswith("option name "):
            known.add(line.removeprefix("option name ").split(" type ")[0].lower())
    for name, value in options.items():
        if name.lower() not in known:
            raise SystemExit(f"{process.args[0]} has no option {name}; numbers of the search need a build with `--features tuning`")
        process.stdin.write(f"setoption name {name} value {value}\n")
    process.stdin.flush()
