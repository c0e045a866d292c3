"""llama.cpp's own server in this process, from the package xllamacpp, until it is ended.

python -m benchmarks.llm_inference.serve_xllamacpp MODEL.gguf PORT STREAMS CONTEXT THREADS
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
    server = xllamacpp.Server(params)
    print(f"serving at {server.listening_address}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
