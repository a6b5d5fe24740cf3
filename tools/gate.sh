#!/usr/bin/env bash
# What the GitHub Action does (action.yml): probe the service, hold it against expectations and a base, report.
# Reads INPUT_*; appends Markdown to GITHUB_STEP_SUMMARY. Exit code: 1 failed, 4 undetermined, 3 unusable, 0 passed.
set -euo pipefail

summary="${GITHUB_STEP_SUMMARY:-/dev/stdout}"
folder="$INPUT_FOLDER"
mkdir -p "$folder"
trace="$folder/candidate.jsonl.zst"

expected=()
while IFS= read -r line; do
    line="${line//[[:space:]]/}"
    if [ -n "$line" ]; then expected+=(--expect "$line"); fi
done <<<"$INPUT_EXPECT"

specsonar probe "$INPUT_URL" --streams "$INPUT_STREAMS" --tokens "$INPUT_TOKENS" \
    --budget "$((INPUT_STREAMS * INPUT_TOKENS))" --quiet --json -o "$trace" >"$folder/candidate.json"

worst=0
# A failure outweighs an open question, whichever came first.
gate() {
    local code=0
    "$@" >>"$summary" || code=$?
    echo >>"$summary"
    case "$code" in
        0) ;;
        1) worst=1 ;;
        4) if [ "$worst" = 0 ]; then worst=4; fi ;;
        *) exit "$code" ;;
    esac
}

gate specsonar analyze "$trace" ${expected[@]+"${expected[@]}"} --format markdown
if [ "${#expected[@]}" -gt 0 ]; then
    specsonar analyze "$trace" "${expected[@]}" --format junit -o "$folder/expect.xml" || true  # counted above
fi
if [ -n "$INPUT_BASE" ]; then
    gate specsonar compare "$INPUT_BASE" "$folder/candidate.json" --margin "$INPUT_MARGIN" --gate --format markdown
    specsonar compare "$INPUT_BASE" "$folder/candidate.json" --margin "$INPUT_MARGIN" --format junit -o "$folder/compare.xml"
fi
exit "$worst"
