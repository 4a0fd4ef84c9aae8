"""Holds requests against Mistral's own validators, of every generation of its tokenizers.

Reads from stdin what `tests/replay_requests.rs` wrote, one JSON object a line. Ends with 1 where a
verdict is not the one that the line expects.
"""

import json
import sys

from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct import validator
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from pydantic import ValidationError

GENERATIONS = ["V3", "V5", "V11", "V13", "V15"]


def refusal(request, generation):
    """Why this generation refuses the request; None if it accepts it."""
    check = getattr(validator, "MistralRequestValidator" + generation)(
        mode=validator.ValidationMode.serving
    )
    try:
        check.validate_request(ChatCompletionRequest.from_openai(**request))
    except (MistralCommonException, ValidationError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


agreed = wrong = 0
for line in sys.stdin:
    line = json.loads(line)
    if line["family"] != "mistral":
        continue
    refusals = [refusal(line["request"], generation) for generation in GENERATIONS]
    if line["verdict"] == "accepted":
        found = next((why for why in refusals if why is not None), None)
        agrees = found is None
    else:
        # What one generation refuses is refused.
        found = "accepted by all"
        agrees = any(why is not None for why in refusals)
    if agrees:
        agreed += 1
    else:
        wrong += 1
        print(f"{found}: {json.dumps(line['request'])}", file=sys.stderr)

print(f"mistral-common agrees with {agreed} verdicts, of {len(GENERATIONS)} generations each")
if agreed <= 100:
    sys.exit("too few requests were looked at")
if wrong:
    sys.exit(f"and not with {wrong}")
