#!/bin/sh
# Fetches npm packages into a folder, once: fetch.sh FOLDER PACKAGE@VERSION ...
# Exit 1, with a loud line, where npm or its registry cannot be reached; install scripts are never run.
set -u
folder=$1; shift
wanted="$*"
[ "$(cat "$folder/.fetched" 2>/dev/null)" = "$wanted" ] && exit 0
command -v npm >/dev/null || { echo "NOT RUN: npm not found; install Node.js 20 or newer"; exit 1; }
mkdir -p "$folder"
[ -f "$folder/package.json" ] || echo '{"private": true}' > "$folder/package.json"
echo "fetching $wanted"
# A registry that hangs is one that cannot be reached: npm itself would wait for a quarter of an hour.
bounds="--fetch-timeout=60000 --fetch-retries=1"
limit=$(command -v timeout) && limit="$limit 600"
# shellcheck disable=SC2086 # both are lists of words
if ! $limit npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel error $bounds "$@" > "$folder/npm.log" 2>&1; then
  tail -n 5 "$folder/npm.log"
  echo "NOT RUN: npm could not fetch $wanted; the lines above say why"
  exit 1
fi
# Claude Code is a program of its own, put into place by a script of the package that only copies it.
claude=$folder/node_modules/@anthropic-ai/claude-code/install.cjs
[ ! -f "$claude" ] || node "$claude" || { echo "NOT RUN: Claude Code has no program for this machine"; exit 1; }
echo "$wanted" > "$folder/.fetched"
