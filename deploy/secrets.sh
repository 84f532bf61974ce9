#!/bin/sh
# Makes the secrets of docker-compose.yml, files in ./secrets, and leaves those alone that are there.
set -eu
cd "$(dirname "$0")/.."
mkdir -p -m 0700 secrets

random() {
    od -An -N32 -tx1 /dev/urandom | tr -d ' \n'
}

# The folder is for us alone. The files are for everybody: Compose shows each to its containers as it is, and they run as nobody.
keep() {
    [ -s "secrets/$1" ] || { printf '%s\n' "$2" >"secrets/$1" && chmod 0444 "secrets/$1"; }
}

keep postgres_password "$(random)"
keep secret_key "$(random)"
keep api_keys "$(random):read+write+delete+admin"
keep admin_password "$(random)"
echo "Log in at /admin/ as admin, with the password in secrets/admin_password. The API's key is in secrets/api_keys, up to the colon."
