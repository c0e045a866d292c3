# What a measured command of the tests waits for: not for a time to pass, but for what must come. Read through BASH_ENV.

wait_until() { # COMMAND [ARGUMENT ...]: until it succeeds
    until "$@"; do
        ((SECONDS < 500)) || { echo "waited in vain for: $*" >&2; exit 99; }
        sleep 0.01
    done
}
# Rows with power of the first channel: others have counters alone.
number_of_rows() { grep -c '^[0-9.]*,[0-9.]*,[0-9n]' "${TRACE:-out/trace.csv}" 2>/dev/null; }
has_rows() { (($(number_of_rows) >= $1)); }
rows() { wait_until has_rows $(($(number_of_rows) + $1)); } # NUMBER: that many more rows in the trace
noted() { wait_until grep -qs "^# event .*$1" "${TRACE:-out/trace.csv}"; } # TEXT: of an event in the trace
file() { wait_until test -e "$1"; } # PATH
