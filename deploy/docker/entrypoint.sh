#!/bin/sh
# The one argument says which process this container is; anything else is a command line of `muster`.
set -eu
case ${1:-} in
    api) exec python -P -m api.main ;;
    controller) exec python -P -m controller.main ;;
    worker) exec python -P -m controller.tasks.main ;;
    migrate) exec python -P -m controller.migrate ;;
    agent)
        shift
        exec muster-agent "$@"
        ;;
    *) exec muster "$@" ;;
esac
