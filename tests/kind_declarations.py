"""Every published kind of cache that the vocabulary can write, small, as groups of a case file (spec: kinds)."""

from __future__ import annotations

ATTENTION = ["key @ 0..3 : H(4).heads T D(8) ; 16", "value @ 0..3 : H(4).heads T D(8) ; 16"]
HYBRID_ATTENTION = {
    "name": "full",
    "buffers": ["key @ 1,3 : H(4).heads T D(8) ; 16", "value @ 1,3 : H(4).heads T D(8) ; 16"],
}
LATENT = {"name": "full", "buffers": ["key @ 1,3 : T D(24) ; 16"]}

GROUPS: dict[str, list[dict[str, object]]] = {
    "gqa, head major": [{"name": "full", "buffers": ATTENTION}],
    "gqa, token major": [
        {
            "name": "full",
            "buffers": ["key @ 0..3 : T H(4).heads D(8) ; 16", "value @ 0..3 : T H(4).heads D(8) ; 16"],
        }
    ],
    "gqa, uneven heads": [
        {
            "name": "full",
            "buffers": ["key @ 0..3 : H(6).floor T D(8) ; 16", "value @ 0..3 : H(6).cyc T D(8) ; 16"],
        }
    ],
    "fp8": [
        {"name": "full", "buffers": ["key @ 0..3 : H(4).heads T D(8) ; 8", "value @ 0..3 : H(4).heads T D(8) ; 8"]}
    ],
    "mla": [{"name": "full", "buffers": ["key @ 0..3 : T D(24) ; 16"]}],
    "nvfp4": [
        {
            "name": "full",
            "buffers": [
                "key @ 0..3 : H(4).heads T D(32) ; 4",
                "value @ 0..3 : H(4).heads T D(32) ; 4",
                "key_block_scale @ 0..3 : H(4).heads T D(2) ; 8",
                "value_block_scale @ 0..3 : H(4).heads T D(2) ; 8",
            ],
        }
    ],
    "nvfp4, data and scales of a row together": [
        {"name": "full", "buffers": ["key @ 0..3 : {H(4).heads T D(16)}:8 {H(4).heads T D(2)}:8"]}
    ],
    "vswa": [
        {"name": "local", "window": 8, "sinks": 2, "buffers": ["key @ 0,2 : H(4).heads T D(8) ; 16"]},
        {"name": "full", "buffers": ["key @ 1,3 : H(4).heads T D(8) ; 16"]},
    ],
    "gemma": [
        {"name": "local", "window": 8, "buffers": ["key @ 0..2 : H(4).heads T D(8) ; 16"]},
        {"name": "full", "buffers": ["key @ 3 : H(2).heads T D(16) ; 16"]},
    ],
    "indexed attention": [
        {
            "name": "full",
            "buffers": [
                *ATTENTION,
                "index_key @ 1..3 : T D(8) ; 16",
                "index_value @ 1..3 : T D(8) ; 16 ; never",
            ],
        }
    ],
    "sparse latent, fp8": [
        {"name": "full", "buffers": ["key @ 0..3 : T ; rec(656)", "index_key @ 0,2 : T ; foot(*,128,4)"]}
    ],
    "sparse latent, fp4": [
        {"name": "full", "buffers": ["key @ 0..3 : T D(24) ; 16", "index_key @ 0,2 : T ; foot(*,64,4)"]}
    ],
    "mamba": [
        {
            "name": "state",
            "kind": "state",
            "buffers": [
                "ssm_state @ 0,2 : H(8).even@TPCP P(4) N(2) ; 32",
                "conv_state @ 0,2 : C[x:32.even, B:16.even, C:16.even]@TPCP W(3) ; 16",
            ],
        },
        HYBRID_ATTENTION,
    ],
    "mamba, one group": [
        {
            "name": "state",
            "kind": "state",
            "buffers": ["conv_state @ 0,2 : C[x:32.even, B:2.all, C:2.all]@TPCP W(3) ; 16"],
        },
        HYBRID_ATTENTION,
    ],
    "gated delta net": [
        {
            "name": "state",
            "kind": "state",
            "buffers": [
                "ssm_state @ 0,2 : H(24).even@TPCP P(4) N(2) ; 32",
                "conv_state @ 0,2 : C[q:16.even, k:16.even, v:48.even]@TPCP W(3) ; 16",
            ],
        },
        HYBRID_ATTENTION,
    ],
    "kda": [
        {
            "name": "state",
            "kind": "state",
            "buffers": [
                "ssm_state @ 0,2 : H(8).even@TPCP P(4) N(4) ; 32",
                "conv_state @ 0,2 : C[q:32.even, k:32.even, v:32.even]@TPCP W(3) ; 16",
            ],
        },
        LATENT,
    ],
    "kda, replicated": [
        {
            "name": "state",
            "kind": "state",
            "buffers": ["ssm_state @ 0,2 : H(8) P(4) N(4) ; 32", "conv_state @ 0,2 : C(96) W(3) ; 16"],
        },
        LATENT,
    ],
    "request-wide position, layer embedding": [
        {
            "name": "state",
            "kind": "state",
            "buffers": [
                "ssm_state @ 0,2 : H(8).even@TPCP P(4) N(2) ; 32",
                "ple_conv_state @ 2 : C(40) W(9) ; 16",
                "ple_ngram_context @ 2 : W(2) ; 64",
            ],
        },
        {
            "name": "full",
            "buffers": [
                "key @ 1,3 : H(2).heads T D(8) ; 16",
                "value @ 1,3 : H(2).heads T D(8) ; 16",
                "index_key @ 1,3 : T D(4) ; 16",
                "qsa_index_position @ 1,3 : T D(3) ; 32 ; request ; first_local",
            ],
        },
    ],
    "fp4 latent": [
        {
            "name": "full",
            "buffers": [
                "key @ 0..2 : T D(640) ; 4 ; ids 2m",
                "key_block_scale @ 0..2 : T D(40) ; 8 ; ids 2m",
                "mla_v_scale @ 0..2 : rec(4096) ; derived(key,key_block_scale) ; ids 2m",
                "mla_v_packed @ 0..2 : rec(32768) ; derived(key,key_block_scale) ; ids 2m",
            ],
        },
        {"name": "tail", "window": 18, "buffers": ["mla_hp_tail @ 0..2 : R(18) D(24) ; 16 ; ids 2m+1"]},
        {"name": "fallback", "window": 1048576, "buffers": ["key @ 3 : T D(24) ; 16 ; ids 2m"]},
    ],
    "compressed attention": [
        {
            "name": "w128",
            "window": 128,
            "buffers": [
                "swa @ 0..3 : T ; foot(64,576,8) ; ids 7m",
                "compressor_kv @ 3 : T D(16) ; 32 ; ids 7m",
                "compressor_score @ 3 : T D(16) ; 32 ; ids 7m",
            ],
        },
        {
            "name": "full",
            "buffers": [
                "compress @ 1..2 : T(4) D(32) ; 4 ; ids 7m+1",
                "compress @ 3 : T(8) D(32) ; 4 ; ids 7m+1",
                "compress_block_scale @ 1..2 : T(4) D(2) ; 8 ; ids 7m+1",
                "compress_block_scale @ 3 : T(8) D(2) ; 8 ; ids 7m+1",
                "indexer_compress @ 1..2 : T(4) ; foot(*,128,4) ; ids 7m+2",
            ],
        },
        {
            "name": "w8",
            "window": 8,
            "buffers": [
                "compressor_kv @ 1..2 : T D(32) ; 32 ; ids 7m+3",
                "compressor_score @ 1..2 : T D(32) ; 32 ; ids 7m+4",
                "indexer_compressor_kv @ 1..2 : T D(16) ; 32 ; ids 7m+5",
                "indexer_compressor_score @ 1..2 : T D(16) ; 32 ; ids 7m+6",
            ],
        },
    ],
    "shared owners": [
        {
            "name": "w128",
            "window": 128,
            "buffers": ["csa2_swa @ 0..3 : T ; rec(528) ; rebuilt@2..3 | send ; ids 3m"],
        },
        {
            "name": "full",
            "buffers": [
                "csa2_global @ 0,2 : T(2) ; rec(288) ; ids 3m+1 ; alias 1,3",
                "csa2_index @ 0,2 : T(2) ; foot(64,64,4) ; ids 3m+1 ; alias 1,3",
            ],
        },
        {
            "name": "w2",
            "window": 2,
            "buffers": [
                "csa2_compressor_kv @ 0,2 : T D(16) ; 32 ; ids 3m+2",
                "csa2_compressor_score @ 0,2 : T D(16) ; 32 ; ids 3m+2",
            ],
        },
    ],
    "draft latent": [
        {"name": "full", "buffers": ["key @ 0..1 : T D(24) ; 16"]},
        {"name": "draft", "domain": "draft", "buffers": ["draft @ 2..3 : T D(24) ; 16 ; optional(either)"]},
    ],
    "cross attention": [
        {"name": "full", "buffers": ATTENTION},
        {
            "name": "cross",
            "length": "encoder",
            "buffers": ["cross_key @ 0..3 : H(4).heads T D(8) ; 16", "cross_value @ 0..3 : H(4).heads T D(8) ; 16"],
        },
    ],
    "state padded to the attention page": [
        {
            "name": "state",
            "kind": "state",
            "buffers": [
                "conv_x @ 0,2 : X(32).even@TPCP W(3) ; 16 ; pad(1024) ; fused(page)",
                "conv_B @ 0,2 : X(8).even@TPCP W(3) ; 16 ; pad(1024) ; fused(page)",
                "conv_C @ 0,2 : X(8).even@TPCP W(3) ; 16 ; pad(1024) ; fused(page)",
                "ssm_state @ 0,2 : H(8).even@TPCP P(4) N(2) ; 32 ; pad(1024) ; fused(page)",
            ],
        },
        HYBRID_ATTENTION,
    ],
    "aligned records": [{"name": "full", "buffers": ["swa @ 0..3 : T ; foot(64,576,8) ; align(576)"]}],
    "scales in the region of keys and values": [
        {
            "name": "full",
            "buffers": [
                "key @ 0..3 : H(4).heads T D(8) ; 8 ; fused(kv)",
                "value @ 0..3 : H(4).heads T D(8) ; 8 ; fused(kv)",
                "scale @ 0..3 : T H(4).heads ; 32 ; own",
            ],
        }
    ],
    "sub-pages": [{"name": "full", "buffers": ["key @ 0..3 : H(4).heads T D(8) ; 16 ; x(2)"]}],
}

TEXTS = sorted({text for groups in GROUPS.values() for group in groups for text in group["buffers"]})
