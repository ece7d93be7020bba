#!/bin/sh
# Saves all streams of the event engine into a folder, or restores them from it, with NATS' command line "nats".
#   deploy/backup/events.sh save    SERVER CREDENTIALS FOLDER
#   deploy/backup/events.sh restore SERVER CREDENTIALS FOLDER
# CREDENTIALS is a folder of "tieline-operator engine-credentials". FOLDER holds events as plain text: encrypt it.
# "restore" deletes the streams that are there. Stop the operator before it: docs/backup.md.
set -eu

usage() {
    echo "Usage: $0 save|restore SERVER CREDENTIALS FOLDER" >&2
    exit 2
}

[ $# -eq 4 ] || usage
what=$1 server=$2 credentials=$3 folder=$4
umask 077
tab=$(printf '\t')
prefix=$(cat "$credentials/api-prefix")

js() {
    creds=$1
    shift
    if [ -e "$credentials/ca.crt" ]; then
        set -- --tlsfirst --tlsca "$credentials/ca.crt" "$@"
    fi
    nats --server "$server" --creds "$creds" --js-api-prefix "$prefix" "$@" </dev/null
}

save() {
    # An account without streams has nothing to save: nats would refuse.
    streams=$(js "$1" stream ls --names)
    [ -n "$streams" ] || return 0
    mkdir -p "$2"
    js "$1" account backup --consumers --force "$2"
}

restore() {
    [ -d "$2" ] || return 0
    # Several servers need a moment after a stream is deleted.
    attempt=1
    until replace "$1" "$2"; do
        [ "$attempt" -lt 5 ] || return 1
        attempt=$((attempt + 1))
        echo "Trying again" >&2
        sleep 3
    done
}

replace() {
    # nats does not restore a stream that exists.
    streams=$(js "$1" stream ls --names) || return 1
    for stream in $streams; do
        js "$1" stream rm --force "$stream" || return 1
    done
    js "$1" account restore "$2"
}

case $what in
save | restore) ;;
*) usage ;;
esac
while IFS="$tab" read -r file _ namespace project environment; do
    echo "$what: $namespace $project $environment" >&2
    "$what" "$credentials/$file" "$folder/${file%.creds}"
done <"$credentials/index.tsv"
