#!/bin/sh
# Installs Muster on a host with systemd, upgrades it, takes an upgrade back, removes it. Run as root; running it again is harmless.
set -eu

usage() {
    cat <<'TEXT'
usage: install.sh [--role server|agent|all] [--version VERSION] [--wheels DIR] [--no-start]
       install.sh --rollback [--role ...] [--no-start]
       install.sh --uninstall [--purge]

  --role       server: API, controller and Celery worker; agent: the node agent (default: agent)
  --version    of Muster (default: the newest)
  --wheels     a folder with the wheels, instead of the package index
  --rollback   back to the release before
  --uninstall  takes the programs and units away; settings, state and jobs stay, with --purge they go as well
  --no-start   leaves starting and restarting to you

Programs are in /opt/muster/releases/N, of which /opt/muster/current is the one in use; settings in /etc/muster; state in
/var/lib/muster. An upgrade first makes the database ready while the old release goes on, then restarts one service after the
other. Restarting an agent leaves the workers on its node alone.
TEXT
}

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}
say() { printf '%s\n' "$*"; }

role=agent version='' wheels='' start=1 act=install purge=0
while [ $# -gt 0 ]; do
    case $1 in
        --role | --version | --wheels)
            [ $# -ge 2 ] || fail "$1 needs a value"
            eval "${1#--}=\$2"
            shift
            ;;
        --no-start) start=0 ;;
        --rollback) act=rollback ;;
        --uninstall) act=uninstall ;;
        --purge) purge=1 ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) fail "unknown argument '$1' (--help shows them)" ;;
    esac
    shift
done
case $role in
    server) units='muster-api muster-controller muster-worker' ;;
    agent) units='muster-agent' ;;
    all) units='muster-api muster-controller muster-worker muster-agent' ;;
    *) fail "--role: expected server, agent or all, found '$role'" ;;
esac
[ "$(id -u)" = 0 ] || fail "run it as root"
[ -z "$wheels" ] || [ -d "$wheels" ] || fail "--wheels: there is no folder $wheels"

here=$(CDPATH='' cd -P -- "$(dirname -- "$0")" && pwd)
home=/opt/muster
releases=$home/releases
kept=3

control() { # systemctl, where it may
    if [ "$start" = 1 ]; then
        systemctl "$@"
    fi
}

numbers() { # of the releases, oldest first
    find "$releases" -mindepth 1 -maxdepth 1 -name '[0-9]*' -printf '%f\n' 2>/dev/null | sort -n
}

number_in_use() { basename "$(readlink "$home/current" 2>/dev/null || echo 0)"; }

switch_to() { # atomically: who starts meanwhile gets the one or the other
    ln -sfn "releases/$1" "$home/.next"
    mv -T "$home/.next" "$home/current"
}

find_python() {
    for name in python3.13 python3.12 python3.11 python3.14 python3; do
        if "$name" -c 'import sys, venv, ensurepip, ssl; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$name"
            return
        fi
    done
    fail "Python 3.11 or newer is needed, with its venv module (Debian: apt-get install python3-venv)"
}

install_release() {
    mkdir -p "$releases"
    number=$(($(numbers | tail -n 1) + 1))
    new=$releases/$number
    trap 'rm -rf "$new"' EXIT
    "$(find_python)" -m venv "$new"
    extras=buckets
    case $role in
        server) extras=$extras,postgres,tracing,kubernetes ;;
        agent) extras=$extras,nvidia,stacks ;;
        all) extras=$extras,postgres,tracing,kubernetes,nvidia,stacks ;;
    esac
    # shellcheck disable=SC2086
    "$new/bin/pip" install --quiet --disable-pip-version-check ${MUSTER_PIP_OPTIONS:-} ${wheels:+--find-links "$wheels"} \
        "muster-cluster[$extras]${version:+==$version}" || fail "pip could not install it; nothing has changed"
    "$new/bin/python" -P -c 'import cli.main, agents.entry' 2>/dev/null || [ -n "${MUSTER_PIP_OPTIONS:-}" ] \
        || fail "the new release does not start; nothing has changed"
    "$new/bin/python" -c 'from importlib.metadata import version; print(version("muster-cluster"))' >"$new/VERSION"
    trap - EXIT
}

settings() { # a file that is not there yet; yours is never touched
    if [ ! -e "/etc/muster/$1" ]; then
        cat >"/etc/muster/$1"
        chmod 0640 "/etc/muster/$1"
        chgrp muster "/etc/muster/$1"
        say "made /etc/muster/$1: look through it"
    else
        cat >/dev/null
    fi
}

prepare_host() {
    getent group muster >/dev/null || groupadd --system muster
    getent passwd muster >/dev/null \
        || useradd --system --gid muster --home-dir /var/lib/muster-server --no-create-home --shell /usr/sbin/nologin muster
    install -d -m 0750 -g muster /etc/muster
    case $role in server | all)
        install -d -m 0700 -o muster -g muster /var/lib/muster-server
        settings server.env <<'TEXT'
# Of API, controller and Celery worker; docs/architecture.md lists all settings.
# SQLite serves one host; for more servers than one: postgresql+psycopg://muster:PASSWORD@HOST/muster
MUSTER_DATABASE_URL=sqlite:////var/lib/muster-server/muster.db
# Without Redis no web hooks are sent: redis://:PASSWORD@HOST:6379/0
MUSTER_REDIS_URL=
MUSTER_LOG_STORE=/var/lib/muster-server/logs
MUSTER_API_HOST=0.0.0.0
MUSTER_API_PORT=7070
MUSTER_ADMIN_TOKEN_FILE=/var/lib/muster-server/admin-token
MUSTER_AGENT_TOKEN_FILE=/var/lib/muster-server/agent-token
MUSTER_SECRET_FILE=/var/lib/muster-server/secret
MUSTER_LEASE='{"renew": 2, "unknown": 10, "fence": 60, "margin": 5}'
TEXT
        ;;
    esac
    case $role in agent | all)
        install -d -m 0711 /var/lib/muster
        settings agent.env <<'TEXT'
# Of the agent; docs/architecture.md lists all settings.
MUSTER_SERVER=http://127.0.0.1:7070
# The content of the servers' agent-token.
MUSTER_TOKEN_FILE=/etc/muster/agent-token
MUSTER_DEVICES=auto
TEXT
        ;;
    esac
}

place_units() {
    install -d /etc/systemd/system /usr/local/bin
    for unit in $units; do
        install -m 0644 "$here/systemd/$unit.service" "/etc/systemd/system/$unit.service"
    done
    for program in muster muster-agent; do
        ln -sfn "$home/current/bin/$program" "/usr/local/bin/$program"
    done
    control daemon-reload
}

migrate() { # a server without a working database says so here, before anything is switched
    case $role in server | all)
        (
            set -a
            # shellcheck disable=SC1091
            . /etc/muster/server.env
            exec setpriv --reuid muster --regid muster --init-groups "$releases/$number/bin/python" -P -m controller.migrate
        ) || fail "the database could not be made ready; the release before goes on"
        ;;
    esac
}

restart() {
    for unit in $units; do
        if [ "$unit" = muster-worker ] && ! grep -q '^MUSTER_REDIS_URL=.' /etc/muster/server.env; then
            continue
        fi
        control enable --quiet "$unit"
        control restart "$unit"
    done
}

forget_old() { # never the one in use, nor the one before: shims may still run from it
    numbers | head -n "-$kept" | while read -r old; do
        rm -rf "${releases:?}/$old"
    done
}

case $act in
    install)
        prepare_host
        install_release
        migrate
        switch_to "$number"
        place_units
        restart
        forget_old
        say "Muster $(cat "$home/current/VERSION") is installed ($role, release $number)."
        ;;
    rollback)
        now=$(number_in_use)
        before=$(numbers | awk -v now="$now" '$1 < now' | tail -n 1)
        [ -n "$before" ] || fail "there is no release before $now"
        switch_to "$before"
        restart
        say "Back at Muster $(cat "$home/current/VERSION") (release $before). The newer schema stays: this release works with it."
        ;;
    uninstall)
        for unit in muster-api muster-controller muster-worker muster-agent; do
            if [ -e "/etc/systemd/system/$unit.service" ]; then
                control disable --quiet --now "$unit"
                rm -f "/etc/systemd/system/$unit.service"
            fi
        done
        control daemon-reload
        rm -rf "$home"
        for program in muster muster-agent; do
            if [ "$(readlink "/usr/local/bin/$program" || true)" = "$home/current/bin/$program" ]; then
                rm -f "/usr/local/bin/$program"
            fi
        done
        if [ "$purge" = 1 ]; then
            rm -rf /etc/muster /var/lib/muster /var/lib/muster-server
            say "Muster is gone from this host, with its settings and state."
        else
            say "Muster is gone from this host; /etc/muster, /var/lib/muster and /var/lib/muster-server stay (--purge takes them)."
        fi
        ;;
esac
