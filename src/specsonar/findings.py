"""The catalogue of findings: for each stable code what it is, why it matters, and what to do.

`specsonar explain CODE` and the documentation are made from this table. A finding is created with `finding()`,
which refuses a code that is not explained here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .fingerprint import Finding


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a code means."""

    title: str
    severity: str
    what: str
    why: str
    do: str


NOTHING: Final = "Nothing."
"""What to do where nothing is to be done; such a finding carries no hint."""

CATALOGUE: Final[dict[str, Explanation]] = {
    "I001": Explanation(
        "file ends early", "warning",
        "The file stops in the middle of a record. Everything before the cut was read.",
        "A recorder that was killed, or a copy that broke off, leaves such a file. Nothing before the cut is damaged.",
        "Nothing, if the part that is there is long enough; otherwise record again.",
    ),
    "I002": Explanation(
        "time unit guessed", "info",
        "The file does not say its time unit, so it was guessed from the size of a typical gap.",
        "A wrong unit scales the step time by a thousand; acceptance and draft length do not depend on it.",
        "Name the unit with `--unit s|ms|us|ns`.",
    ),
    "I003": Explanation(
        "times out of order", "warning",
        "Some events carry an earlier time than the event before them.",
        "Tokens cannot be taken back: the clock was set, or events of several sources were mixed. "
        "The times were sorted, so small reorderings do no harm.",
        "Stamp with a monotonic clock, one stream per file or per stream column.",
    ),
    "I004": Explanation(
        "lines skipped", "warning",
        "Some lines could not be read and were left out.",
        "Missing events look like longer gaps and merged steps.",
        "Look at the first line that is named; repair or remove it.",
    ),
    "I005": Explanation(
        "counts and total disagree", "info",
        "The token counts of the events do not add up to the total that the server gives.",
        "A server may count tokens past the limit that it cut off, or may count steps instead of tokens. "
        "The counts of the events were used.",
        "Nothing, when the difference is a few tokens; otherwise ask which of the two the server means.",
    ),
    "I006": Explanation(
        "total not trusted", "warning",
        "This engine is known to count steps in its total of tokens, and nothing shows that they are the same here.",
        "With speculation on, such a total is too small, and one token per event would be read out of it. "
        "It was not used.",
        "Ask for token ids, log-probabilities or usage per event, where the server can give them.",
    ),
    "I007": Explanation(
        "the server reported an error", "warning",
        "The recording holds an error message of the server, or an HTTP status of 400 or more.",
        "The answer may have ended early.",
        "Read the message; record again when the server is well.",
    ),
    "I008": Explanation(
        "a connection was given up", "warning",
        "One connection went past a limit that protects the recorder, so its bytes were no longer looked at.",
        "The answers on it were kept up to that point; the other connections were not touched.",
        "Look at what the server sends there: endless headers, lines or frames are no token stream.",
    ),
    "I009": Explanation(
        "bytes not recorded", "warning",
        "The recorder fell so far behind that it had to leave out the rest of a connection.",
        "Passing bytes on comes first; what waits to be decoded is bounded, so that the memory is not filled.",
        "Record fewer connections at a time, or give the recorder a processor of its own.",
    ),
    "I010": Explanation(
        "no arrival times", "warning",
        "The file is known, and holds means, percentiles or first-token times only.",
        "How a service decodes is in the times of single events. No mean gives them back.",
        "Record again with the flag or the tool that the message names.",
    ),
    "I011": Explanation(
        "first chunk had no token", "info",
        "The tool counted the chunk that only announces the role as the first token; it was left out.",
        "It leaves the server together with the first token, and looks like a very short step.",
        "Nothing.",
    ),
    "I012": Explanation(
        "made-up times", "warning",
        "Times in the file were spread evenly over an interval by the tool that wrote it.",
        "Even gaps are the tool's doing, not the service's. They are no evidence of anything and were not used.",
        "Record with a tool that keeps the time of each chunk, as `specsonar record` does.",
    ),
    "I013": Explanation(
        "more events than needed", "info",
        "The file holds more events than are kept in memory; the first of them were used.",
        "The precision of the answer is far better than the differences between services long before that.",
        "Nothing; split the file to see the rest of it.",
    ),
    "I014": Explanation(
        "an answer broke off", "warning",
        "The connection, or the stream of this answer in it, ended before the answer did.",
        "The last tokens are missing; what came before is undamaged.",
        "Nothing, if the part that is there is long enough; otherwise record again.",
    ),
    "I015": Explanation(
        "bytes against the rules", "warning",
        "Bytes break the rules of the protocol or of the encoding that they claim to be in, "
        "so what follows them cannot be read.",
        "A broken server or proxy sends wrong lengths; a capture with lost packets looks the same.",
        "Look at whether an ordinary client can read this service; capture again without loss.",
    ),
    "I016": Explanation(
        "answer not streamed", "info",
        "An answer came as one JSON document instead of a stream of events.",
        "Without a stream there are no arrival times of tokens.",
        "Ask for a stream: `\"stream\": true` in the request, or the streaming route.",
    ),
    "I017": Explanation(
        "settings of a request not read", "info",
        "A request body was too large to be kept, so its model, temperature and limit of tokens are not known.",
        "Large images and documents in a prompt do this. The times are not touched by it.",
        NOTHING,
    ),
    "I018": Explanation(
        "joined in the middle", "warning",
        "The capture of a connection does not begin with its begin, or is encrypted.",
        "HTTP/1.1 can be read from the next request on; HTTP/2 and TLS depend on what was said at the begin.",
        "Start the capture before the client connects; for TLS give the key log, or record with `specsonar proxy`.",
    ),
    "I019": Explanation(
        "packets are missing", "warning",
        "The capture lacks packets, or parts of them, that were sent. An answer ends where the first is missing.",
        "A gap in a capture looks like a stall of the service, and what stood in it cannot be counted.",
        "Capture with a larger buffer (`tcpdump -B`), whole packets (`-s 0`), and a filter on the service's port.",
    ),
    "I020": Explanation(
        "times and sizes only", "warning",
        "What came was not recorded or cannot be decrypted: only when something came, and how many bytes.",
        "Not all of it need be tokens, and nobody says how many tokens a piece holds. Gaps are seen, bursts are not.",
        "Give the key log, or record the content: `specsonar proxy`, or the client with SSLKEYLOGFILE set.",
    ),
    "I021": Explanation(
        "times by the server's clock", "info",
        "The file has no arrival times; the times used are those that the server put into its own events.",
        "They show when events were made, before anything delayed them: no network, no buffer, no jitter of the path.",
        NOTHING,
    ),
    "I030": Explanation(
        "early events were dropped", "warning",
        "The tool keeps a limited number of events for each answer; the earliest ones are gone.",
        "What is left is a stream without its begin; the time of the first token is not known.",
        "Raise the limit (OpenTelemetry: `OTEL_SPAN_EVENT_COUNT_LIMIT`), or ask for shorter answers.",
    ),
    "I031": Explanation(
        "files left out", "warning",
        "Some files of a fleet could not be used; each is listed with the reason.",
        "Everything else was analysed. What those files hold is missing from their groups.",
        "Look at the reasons; `specsonar show FILE` says more about one file.",
    ),
    "I032": Explanation(
        "group not known", "info",
        "Some streams do not tell what the fleet is grouped by, and were put together under a question mark.",
        "Streams of different services or days may be mixed there, and a mixture has no one way to decode.",
        "Add a column of that name, put the files into folders like `day=2026-11-29`, or group otherwise with `--by`.",
    ),
    "Q001": Explanation(
        "too few tokens", "warning",
        "There are fewer tokens than it takes to tell the explanations apart.",
        "With few steps a plain stream with a late packet and a weak draft look alike, and intervals are wide.",
        "Record more tokens, or pool several streams: `specsonar analyze A B C`. The message says how many are needed.",
    ),
    "Q002": Explanation(
        "one event taken as one token", "info",
        "The recording does not say how many tokens an event holds, so each was taken as one.",
        "Where a server puts all tokens of a step into one event, the gaps are step times and bursts cannot be seen.",
        "Ask the server for counts (continuous usage, token ids, log-probabilities), or give a second column.",
    ),
    "Q003": Explanation(
        "many events share a read", "info",
        "Several events came in one socket read, so their order in time is not known.",
        "Times inside a read are ties. Bursts remain visible, gaps inside them do not.",
        "Nothing, unless reads hold several steps: then capture nearer to the server or switch off proxy buffering.",
    ),
    "Q004": Explanation(
        "coarse clock", "info",
        "All times are multiples of a tick.",
        "Gaps inside a burst cannot be told from zero, and the step time is only as good as a mean over many steps.",
        "Stamp with a clock finer than a hundredth of the step.",
    ),
    "Q005": Explanation(
        "stalls", "info",
        "Some gaps are many steps long.",
        "A stalled path delivers the steps behind it in one lump. They are counted by the elapsed time.",
        "Nothing, unless they are frequent; then look at the network path or at the load of the recorder.",
    ),
    "Q006": Explanation(
        "jitter hides the bursts", "warning",
        "The delays spread so far over the step that steps overlap in time.",
        "The number of tokens needed grows steeply with jitter over step: 500 at 0.30, 2,000 at 0.35, 8,000 at 0.40.",
        "Record more tokens or streams, nearer to the server. The token rate is known in any case.",
    ),
    "Q007": Explanation(
        "counts unknown", "warning",
        "Events hold several tokens, and only their total is known, or not even that.",
        "The mean number of tokens per event follows from the total; its spread, and so the largest burst, does not.",
        "Ask the server for token ids or usage in every event.",
    ),
    "Q008": Explanation(
        "reads came late", "warning",
        "The thread that reads the sockets was kept waiting, by more than some steps take.",
        "What arrives meanwhile is read at once and shares the time of its last segment: steps may be merged. "
        "The times themselves are the kernel's and stay right.",
        "Leave the recorder more of the processor: fewer streams, less work in the program that consumes them.",
    ),
    "Q009": Explanation(
        "stamped by the program", "info",
        "The kernel did not stamp the data, so each read was stamped by the program's clock right after it.",
        "What delays the program then looks like delay of the service, and how much that is cannot be told.",
        "Record on Linux; or keep the machine idle. `specsonar doctor` measures what the program's stamps are worth.",
    ),
    "Q010": Explanation(
        "the wall clock was set", "info",
        "The kernel stamps with the wall clock, and that was set, or the machine slept, during the recording.",
        "The stamps were put on a clock that cannot be set. Those read in the moment of the step may be off.",
        "Nothing, unless the machine slept: then record again.",
    ),
    "Q011": Explanation(
        "reading paused", "warning",
        "Megabytes waited to be consumed, so a connection was not read for a while.",
        "The sender had to wait, and what it sent then came when there was room. Nothing was lost, but times may be "
        "those of the program instead of the service.",
        "Consume faster, or ask for less at a time.",
    ),
    "Q012": Explanation(
        "the server waits for acknowledgements", "info",
        "The server sends small pieces with Nagle's algorithm on: each waits until the one before is acknowledged, "
        "which most clients delay by 40 ms.",
        "Clients see lumps of several steps. specsonar acknowledges at once, so that its own times do not suffer.",
        "Have the server set TCP_NODELAY, for the sake of its users.",
    ),
    "Q013": Explanation(
        "the way holds events back", "warning",
        "Events come when a buffer is full, or all at the end, not when they are made.",
        "Steps inside a lump cannot be seen. What was decoded together and what was sent together look alike.",
        "Switch buffering off (`X-Accel-Buffering: no`, `proxy_buffering off`), or connect behind the buffer.",
    ),
    "Q014": Explanation(
        "compression holds events back", "warning",
        "When the client takes packed bodies, events come in far larger lumps than without.",
        "A packer that is not flushed after each event keeps what does not fill its block.",
        "Ask without `Accept-Encoding`, as specsonar does; or have the packer flush, or leave event streams alone.",
    ),
    "Q015": Explanation(
        "the recorded program reads late", "warning",
        "Bytes had been waiting in the machine when the recorded program asked for them.",
        "A program that is busy with one token asks late for the next. What came meanwhile shares one read, and where "
        "the kernel does not stamp, gaps show the program's own work.",
        "Record through `specsonar proxy`, which reads at once, or let the program do less between two tokens.",
    ),
    "V001": Explanation(
        "largest burst bounded from below only", "info",
        "Full bursts are so rare that a larger one may exist and not have been seen.",
        "A draft of 8 that is hardly ever accepted beyond position 3 looks like a draft of 3.",
        "Lead with the acceptance length, which is well determined; or record more tokens with easier text.",
    ),
    "V002": Explanation(
        "acceptance depends on the position", "info",
        "One acceptance rate for all draft positions does not fit; the rates by position do.",
        "Real drafts are often accepted more readily once they are on the right track. The single rate is an average.",
        "Use `acceptance_by_position`, and the acceptance length.",
    ),
    "V003": Explanation(
        "acceptance comes in stretches", "info",
        "Neighbouring steps accept alike: the text has easy and hard stretches.",
        "Steps are then worth less than independent ones. The intervals were widened accordingly.",
        "Record several streams on different prompts: streams are independent, steps are not.",
    ),
    "V004": Explanation(
        "no explanation fits", "warning",
        "The best explanation was simulated, and the data differ from it by more than chance allows.",
        "The best of several wrong models is not an answer.",
        "Look at the gap histogram; a proxy, a second service behind the same name, or a pacer may be in between.",
    ),
    "V005": Explanation(
        "two explanations are close", "warning",
        "The evidence does not separate the best two explanations.",
        "With more tokens it would: the evidence grows in proportion to them.",
        "Record more tokens; the message says about how many.",
    ),
    "V006": Explanation(
        "steps of two lengths", "info",
        "Single-token steps take another time than the others.",
        "A server that drafts only now and then (n-gram lookup, confidence thresholds) makes plain steps in between.",
        "Nothing: the step time given is the mean of both kinds.",
    ),
    "V007": Explanation(
        "speculation cannot be excluded", "info",
        "The stream is plain decoding, or speculation whose drafts are hardly ever accepted.",
        "A draft that is never accepted leaves no trace in the output; a rarely accepted one is like a polling loop.",
        "Compare the step time with speculation switched off: drafting costs time even when nothing is accepted.",
    ),
    "V008": Explanation(
        "stream interval", "info",
        "Events are sent only when a number of tokens has gathered; each holds several steps.",
        "Single steps are hidden; their law was computed from the overshoot beyond the interval.",
        "Switch the interval off (`stream_interval` 1) to see the steps.",
    ),
    "V009": Explanation(
        "text held back", "info",
        "The server holds tokens back inside a character and sends them with a later event.",
        "Events are neither tokens nor steps. Bursts are read from counts and gaps together, which is less certain.",
        "Record with text in plain ASCII, or ask for token ids.",
    ),
    "V010": Explanation(
        "the path or the server hides the decoder", "info",
        "Tokens arrive in groups whose number follows the clock, in groups of one size, or evenly paced.",
        "A proxy, a gateway, a stream interval or a pacer decides when tokens come. What the decoder does is hidden.",
        "Switch buffering off (`X-Accel-Buffering: no`, `proxy_buffering off`), or capture before the buffer.",
    ),
    "S001": Explanation(
        "the server's report agrees", "info",
        "What the server says about its speculation agrees with what was inferred.",
        "Two independent ways to the same number.",
        NOTHING,
    ),
    "S002": Explanation(
        "the server's report disagrees", "warning",
        "What the server says about its speculation differs from what was inferred.",
        "Counters have been seen to read zero with speculation on, and to count tokens that were never sent.",
        "Trust the stream; ask which tokens and steps the counter counts.",
    ),
    "S003": Explanation(
        "the server's report cannot be checked", "info",
        "The server reports its speculation, but the streams do not show their steps, or its counters cover more "
        "answers than these.",
        "A report that nothing is set against is only a claim.",
        "Ask for token counts in every event and record nearer to the server; for counters, be its only client.",
    ),
    "C001": Explanation(
        "unlike recordings", "warning",
        "The two recordings were made under different conditions, and were compared all the same.",
        "Another model, temperature or prompt changes the acceptance by itself; another clock changes what is seen.",
        "Record both sides alike: same model, temperature, prompts, lengths and recorder.",
    ),
    "C002": Explanation(
        "a side without steps", "warning",
        "One of the two recordings does not show the steps of the decoder.",
        "Behind a buffer, a pacer or fixed chunks only the token rate can be compared.",
        "Take away what hides the steps, or record longer answers.",
    ),
    "C003": Explanation(
        "few streams", "info",
        "One of the two recordings has fewer than six streams, so the spread between streams was not measured.",
        "Streams differ by their content. Intervals of a single recording do not hold what another one would say.",
        "Record at least six answers a side, better twenty.",
    ),
    "C004": Explanation(
        "partly other prompts", "info",
        "Some prompts were asked on one side only. What both were asked is compared prompt by prompt, without the "
        "rest; where that is too little, all answers are compared as they are.",
        "A draft guesses some prompts better than others, so another mix of them looks like a change of the service.",
        "Probe both sides alike, with as many streams and a budget that suffices for them.",
    ),
    "C005": Explanation(
        "other drafts", "info",
        "Speculation is on at one side only, or the most that a step gives has changed.",
        "Then drafts are switched, longer or shorter than they were, and the acceptance length moves with them.",
        "Look at the draft length that was configured; `--expect k=8` holds one side against it.",
    ),
    "C006": Explanation(
        "the same data twice", "warning",
        "Base and candidate hold the same times.",
        "A recording is always equivalent to itself, so nothing was learnt about the service.",
        "Look at the file names; record the candidate anew.",
    ),
}  # fmt: skip


def finding(code: str, message: str, hint: str = "", severity: str | None = None) -> Finding:
    """A Finding of the catalogue; severity and hint default to the catalogue's.

    Raises
    ------
    KeyError : the code has no explanation. That is a defect of the caller, not of the data.
    """
    entry = CATALOGUE[code]
    advice = "" if entry.do == NOTHING else entry.do
    return Finding(code, severity or entry.severity, message, hint or advice)
