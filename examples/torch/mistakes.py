"""Mistakes of the programs beside, each a patch of `patches`; who is to blame; and where nothing is added over ranks."""
MISTAKES = {  # and who is to blame: one of these
    "tensor_parallel": {"norm": "m0/layers.0.norm2/in", "heads": "m0/layers.0.attention.o/in", "seed": "m0/input"},
    "by_hand": {"copy": "m0/layers.2.norm2/grad_out", "mask": "m0/words/out", "top": "m0/loss m0/head/grad_out"},
    "data_parallel": {"sync": "head.weight/grad", "zero": "head.weight/grad", "twice": "m0/head/grad_out"},
    "context_parallel": {"places": "m0/layers.0.attention.o/in", "keys": "m0/layers.2.attention.v/grad_out",
                         "scale": "m0/head/grad_out"},
    "fully_sharded": {"divide": "layers.0.attention.k.weight/grad", "ignored": "norm.weight/grad",
                      "labels": "m0/head/grad_out"},
    "sharded_optimizer": {"counted": "m0/head/grad_out", "module": "head.weight/grad", "inner": "words.weight/param"},
    "experts": {"router": "layers.0.feed_forward.router.weight/grad", "back": "m0/layers.0.feed_forward/out",
                "divide": "layers.0.feed_forward.experts.0.down.weight/grad"},
    "pipeline": {"layer": "layers.2.norm1.weight", "scale": "m0/head/grad_out", "order": "m0/head/grad_out"},
    "interleaved": {"offset": "layers.2.norm1.weight", "scale": "m0/head/grad_out", "first":
                    "layers.2.norm1.weight/exp_avg/before"},
    "hugging_face": {"theta": "m0/model.rotary_emb/out", "mean": "m0/input.2",
                     "clip": "model.embed_tokens.weight/clipped_grad lm_head.weight/clipped_grad"},
    "megatron_core": {"mask": "m0/embedding.word_embeddings/out", "norm": "decoder.final_layernorm.weight/grad",
                      "stride": "m0/decoder.layers.0.mlp.linear_fc2/in"},
    "megatron_experts": {"router": "decoder.layers.0.mlp.router.weight/grad",
                         "first": "m0/decoder.layers.0.mlp.experts.local_experts.2.linear_fc1/in",
                         "gates": "m0/decoder.layers.0.mlp.experts.local_experts.2.linear_fc2/in"},
    "megatron_context": {"scale": "decoder.final_layernorm.weight/grad", "group": "decoder.final_layernorm.weight/grad",
                         "places": "m0/rotary_pos_emb/out"},
    "megatron_data": {"twice": "m0/output_layer/grad_out", "ranges":
                      "decoder.layers.1.mlp.linear_fc1.weight/exp_avg", "gather": "embedding.word_embeddings.weight/param"},
    "megatron_pipeline": {"stages": "decoder.layers.2.input_layernorm.weight", "scale": "m0/output_layer/grad_out",
                          "ahead": "m0/output_layer/grad_out"}}
SMALL = {  # those that change little: a rule may miss them
    "tensor_parallel": {"smoothing": "m0/loss m0/head/grad_out"}, "by_hand": {"padded": "m0/loss m0/head/grad_out"},
    "data_parallel": {"label": "m1/loss m1/head/grad_out"}, "fully_sharded": {"reduce": "head.weight/grad"},
    "sharded_optimizer": {"ends": "m0/loss m0/head/grad_out"},
    "experts": {"balance": "m0/loss m0/layers.2.feed_forward.router/grad_out"},
    "hugging_face": {"duplicate": "model.embed_tokens.weight/clipped_grad lm_head.weight/clipped_grad", "epsilon":
                     "m0/model.layers.0.input_layernorm/out"},
    "megatron_core": {"positions": "m0/decoder.layers.0.self_attention.core_attention.scale_mask_softmax/in"}}
ONLY = {("fully_sharded", "reduce"): "fp32"}  # in BF16 gradients are reduced in BF16 anyway
FIRST = r"^m0/(words/(in|out)|layers\.0\.(norm1/(in|out)|attention\.([qkv]/(in|out)|o/in)))"
EXACT = {  # where nothing upstream is added over ranks: up to the first sum of a layer, and all but gradients of weights
    "tensor_parallel": FIRST, "by_hand": FIRST, "data_parallel": "/(in|out|grad_out)$",
    "fully_sharded": "/(in|out|grad_out)$", "sharded_optimizer": "/(in|out|grad_out)$", "pipeline": ".",
    "interleaved": ".",
    "megatron_pipeline": ".",
    "hugging_face": r"^m\d/model\.(embed_tokens/(in|out)|rotary_emb/.*|layers\.0\.(input_layernorm/(in|out)|self_attn\."
                    r"([qkv]_proj/(in|out)|o_proj/in)))$",
    "experts": r"/(in|out|grad_out)$|\.experts\.",
    "context_parallel": "/(in|out)$|^m0/(head|norm|layers.2.(feed_forward.*|norm2|attention.o))/grad_out$",
    "megatron_context": "/(in|out)$|^m0/(output_layer|decoder.final_layernorm|decoder.layers.2)/grad_out$",
    "megatron_data": "/(in|out|grad_out)$",
    "megatron_experts": r"^m0/(embedding.*/(in|out)|decoder\.layers\.0\.(input_layernorm/(in|out)|self_attention\."
                        r"(linear_qkv/(in|out)|core_attention.*/(in|out)|linear_proj/in)))$",
    "megatron_core": r"^m0/(embedding.*/(in|out)|decoder\.layers\.0\.(input_layernorm/(in|out)|self_attention\."
                     r"(linear_qkv/(in|out)|core_attention.*/(in|out)|linear_proj/in)))$"}
