"""llama.cpp's own server in this process, from the package xllamacpp, until it is ended.

python -m benchmarks.llm_inference.serve_xllamacpp MODEL.gguf PORT STREAMS CONTEXT THREADS [DRAFT.gguf TOKENS LENGTH]

With a draft model it proposes TOKENS in each step, of which the mean LENGTH less 1 are accepted by chance.
"""

from __future__ import annotations

import sys
import threading


def main() -> None:
    """Serve; the arguments are those of the module."""
    try:
        import xllamacpp
    except ImportError as error:
        sys.exit(
            f"error: the package xllamacpp does not load ({error}): it needs libgomp1; pip install -e '.[inference]'"
        )
    path, port, streams, context, threads = sys.argv[1], *map(int, sys.argv[2:6])
    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = path, {"model"}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_parallel, params.n_ctx = streams, streams * context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.n_threads_http = streams + 2  # a stream holds one for as long as it lasts
    params.cache_prompt, params.cache_idle_slots, params.cache_ram_mib = False, False, 0
    params.endpoint_metrics, params.warmup = True, True
    params.verbosity = 1  # errors alone: a line for each request is work
    if draft := sys.argv[6:]:
        speculative = params.speculative
        speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        speculative.draft.mparams.path, speculative.draft.n_max = draft[0], int(draft[1])
        speculative.draft.n_min, speculative.draft.p_min = 0, 0.0  # as many as allowed, however unlikely they are
        speculative.draft.cpuparams.n_threads = speculative.draft.cpuparams_batch.n_threads = threads
        speculative.synth_len = float(draft[2])
    server = xllamacpp.Server(params)
    print(f"serving at {server.listening_address}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
