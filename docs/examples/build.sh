#!/bin/bash
# build.sh DIR OUT: builds something in a sandbox, shows how that goes on, and
# fetches what was built. DIR is the agent's tree.
cd "$1/containers" || exit
exec 3<>new
echo '{"commands":["for i in 1 2 3; do echo step $i; sleep 0.2; done; echo built > program"]}' >&3
read -r n <&3; exec 3>&-
cat "sessions/$n/result" >/dev/null & # waits for the end
tail -f -n +1 --pid=$! "sessions/$n/output"
cp "sessions/$n/files/workspace/program" "$2"
