"""Tuned constants of speed: threads, chunks, blocks and parts.

``benchmarks/constants.py`` measures each of them. Ratios are CPU time of a whole call on two cores, relative to the
value here, unless they say otherwise. "Small" data has 50 queries with 20 documents and 5 features each, "medium"
200 × 50 × 20, "large" 2,000 × 50 × 40, all generated.

Compiled kernels have their own constants, as a change of these recompiles them. Limits of memory and of
accuracy stand where they are used.
"""

from __future__ import annotations

from typing import Final

#: Chunks of queries that threads work on; fixed, so that no result depends on the number of threads. ``fit`` with
#: svmmap on large data: 1.0 for 8 and for 512; ``evaluate``: 1.0 and 1.15.
CHUNKS: Final = 64
#: Number of documents up to which all are one chunk. ``evaluate`` of small data: 2.6 for 0. ``fit`` of small and of
#: medium data: 1.0 for 0, 0.9 for 20,000, which leaves medium data to one thread.
SERIAL_DOCUMENTS: Final = 2_000

#: Numbers in the features up to which ``tune`` trains one fold at a time if Python takes most of a fit: threads would
#: wait for each other. Wall time with 2 and 16 threads relative to one: small data 1.4 and 1.8, medium 1.0 and 1.3.
GIL_BOUND_NUMBERS: Final = 500_000

#: Parts of the risk that have their own cutting planes: more need fewer passes and larger quadratic programs. ``fit``
#: with svmmap, C of 1 and 100, on medium data: linear 1.0 for 16 and 64; curves 0.95 for 16, 1.1 to 1.3 for 64. For 16
#: MQ2008 takes up to 1.4 times as many passes, which costs more on data larger than memory.
PARTS: Final = 32
#: The same with sign constraints, where a quadratic program is a sequence of programs. ``fit`` with svmmap and monotone
#: curves on medium data: 1.1 for 4; 1.05 to 1.25 for 32 with C = 1, 1.25 to 1.4 with C = 100.
SIGNED_PARTS: Final = 16
#: Parameters up to which all parts have their own planes. ``fit`` with svmmap and C = 100 on large data: 1.4 for 8;
#: with curves on medium data: 1.0 for 4,096.
FEW_PARAMETERS: Final = 512
#: With few parameters and large data: maximum number of parts, and bytes of features that are read in the time that a
#: quadratic program takes for each part and the square of each parameter. ``fit`` with svmmap and C = 100 on large
#: data: 1.3 with 32 parts, 0.9 with 512; 1.0 for 15 bytes, 1.35 for 1,500. With C = 1: 0.95 with 32 parts.
MAX_PARTS: Final = 128
PROGRAM_BYTES: Final = 150
#: With no more documents than parameters: maximum number of parts, and numbers in one plane of each part.
#: Dense 2,000 × 2,000 with C = 1: 1.15 for 1 part. Dense 1,000 × 1,000 with C = 10,000: 1.1 for 4 parts; 1 part has a
#: gap of 40% after 1,000 iterations. Sparse 8,000 × 20,000: in the same time, 4 parts leave 4 times the gap of 1 part.
WIDE_PARTS: Final = 8
WIDE_NUMBERS: Final = 16_000

#: With large data: number of blocks of a pass, and maximum bytes of one. Between blocks threads wait for each other, as
#: only many cores show (``benchmarks/cuda.py``). Wall time of ``fit`` on 3.8 million × 136 with 16 threads, svmmap and
#: softmax: 4.0 and 1.4 s for blocks of 2 MB, 1.5 and 0.7 s for 8 MB, 1.4 and 0.7 s for 16 and for 32 MB. With two
#: threads: 5.2 and 2.2 s for 2 MB, 5.5 and 2.4 s for 16 MB.
N_BLOCKS: Final = 128
MAX_BLOCK_BYTES: Final = 16 << 20

#: Bytes of a block of lines that is parsed. ``read`` of 60,000 documents (JSON lines: 30,000) with 40 features: CSV
#: 1.9 for 256 KB, and wall time 1.5 for 8 MB; JSON lines 1.3 and 1.5; LETOR 1.05 and 1.0.
TEXT_BLOCK_BYTES: Final = 2 << 20
#: Numbers that are hashed together. Document keys of large data: 1.65 for 2^12, 1.1 for 2^18, 2.1 for 2^21.
HASH_BLOCK_NUMBERS: Final = 1 << 15
