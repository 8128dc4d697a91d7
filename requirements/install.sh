#!/usr/bin/env bash
# Bring .venv to what a lock file says, then install kvtune itself into it, editable. Called by make: install.sh run|dev
# `install.sh gpu` adds torch and triton to what is there (5 GB, so it is apart).
# Does nothing (in a few milliseconds) when .venv already is what the lock files say.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=${1:?"usage: requirements/install.sh run|dev|gpu"}
lock=requirements/$kind.txt
[ -f "$lock" ] || { echo "kvtune: no lock file $lock (kinds: run, dev, gpu)" >&2; exit 2; }
venv=.venv
log=$venv/install.log
stamp=$venv/.kvtune-installed
[ "$kind" != gpu ] || stamp=$venv/.kvtune-installed-gpu

say() { printf 'kvtune: %s\n' "$*"; }
fail() { printf 'kvtune: %s\n' "$@" >&2; exit 1; }

# A moved or copied checkout has scripts that point to the old place, so the place belongs to the key.
locks=(requirements/run.txt requirements/dev.txt pyproject.toml)
[ "$kind" != gpu ] || locks=("$lock")
key=$(cat "${locks[@]}" requirements/install.sh <(pwd -P) | cksum)
[ -x $venv/bin/python ] && [ -f $stamp ] && installed=$(cat $stamp) || installed=
case $installed in
    "$kind $key" | "dev $key") exit 0 ;;
esac

new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
python_of_the_machine() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if command -v "$candidate" >/dev/null && "$candidate" -c "$new_enough" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    local found
    found=$("${PYTHON:-python3}" --version 2>&1) || found="no ${PYTHON:-python3}"
    fail "needs Python 3.11 or newer, found: $found." \
        "Install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3 ..."
}

make_venv() {
    local python
    python=$(python_of_the_machine)
    say "creating $venv with $("$python" --version) ($python)"
    local said
    if ! said=$("$python" -m venv --clear $venv 2>&1); then
        printf '%s\n' "$said" >&2
        rm -rf $venv
        fail "$python cannot create a virtual environment. On Debian and Ubuntu install its package:" \
            "    apt-get install $("$python" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')"
    fi
}

# Show one line per package instead of pip's own output, which goes to the log. Not with awk: mawk, which
# Debian has, waits until 4 KiB of a pipe are there, so that its lines come late and in heaps.
progress() {
    local total=$1 n=0 line name
    while IFS= read -r line; do
        printf '%s\n' "$line" >&3
        case $line in
            "Requirement already satisfied: "*) n=$((n + 1)) ;;
            "Collecting "*)
                n=$((n + 1))
                name=${line#Collecting }
                printf '  [%d/%d] %s\n' "$n" "$total" "${name%% *}"
                ;;
            "Installing collected packages"*) printf '  installing what was fetched (some seconds)\n' ;;
        esac
    done 3>$log
}

fetch_with_pip() {
    local total
    total=$(grep -E '^[a-z0-9].*==' "$lock" | grep -v "sys_platform == 'win32'" | sed 's/==.*//' | sort -u | wc -l)
    say "installing $total locked packages from $lock into $venv (every file checked by its hash)"
    PYTHONUNBUFFERED=1 $venv/bin/python -m pip install --no-input --disable-pip-version-check --progress-bar off \
        --require-hashes --requirement "$lock" 2>&1 | progress "$total"
}

fetch_with_uv() {
    $venv/bin/uv pip install --quiet --python $venv/bin/python --require-hashes --requirement "$lock" >$log 2>&1
}

fetch_failed() {
    tail -n 30 $log >&2
    fail "the installation failed; all of its output is in $log"
}

install() {
    fetch_with_pip || fetch_failed
    say "installing kvtune itself, editable"
    PYTHONUNBUFFERED=1 $venv/bin/python -m pip install --no-input --disable-pip-version-check --quiet \
        --no-deps --no-index --no-build-isolation --editable . \
        || fail "the installation of kvtune itself failed"
}

# uv, a tool of development, takes half a minute for what takes pip some minutes.
add_gpu() {
    [ -x $venv/bin/python ] || fail "no $venv to add torch to: make install-dev first"
    say "adding torch and triton to $venv: 5 GB on disk, half a minute with uv, some minutes with pip"
    if [ -x $venv/bin/uv ]; then fetch_with_uv; else fetch_with_pip; fi || fetch_failed
}

if [ "$kind" = gpu ]; then
    add_gpu
    printf '%s %s\n' "$kind" "$key" >$stamp
    exit 0
fi

usable() { $venv/bin/python -c "$new_enough" && $venv/bin/pip --version; }
usable >/dev/null 2>&1 || make_venv
rm -f $stamp
install
printf '%s %s\n' "$kind" "$key" >$stamp
say "installed; the next start skips this"
