import { modelShape } from '../../config';
import {
  both,
  decides,
  flags,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  type Patch,
  refused,
  settingKeys,
  type Translation,
} from '../rows/key-row';
import { ATTENTION } from '../rows/models';
import { numberOf, wholeOf } from '../rows/values';

const size = (path: string): KeyRow => decides(path, ({ value }) => ({ sets: { [path]: wholeOf(value) } }));

/** Arguments for the sizes and parts of the model; Megatron-LM has a GPT whose parts are chosen one by one. */
export const MODEL: KeyTable = {
  num_layers: size('model.layers'),
  hidden_size: size('model.dim'),
  num_attention_heads: size('model.heads'),
  ffn_hidden_size: decides('model.ffn', ({ value, other }) =>
    other('num_experts') === undefined
      ? { sets: { 'model.ffn': wholeOf(value) } }
      : { effect: 'refused', why: 'experts are four times as wide as the model here' },
  ),
  // NullTokenizer adds a token of its own for the end of a document.
  vocab_size: decides('model.vocab', ({ value, other }) => ({
    sets: { 'model.vocab': wholeOf(value) + (String(other('tokenizer_type')) === 'NullTokenizer' ? 1 : 0) },
  })),
  num_query_groups: decides('model.kvHeads', ({ value, other }) =>
    isLlama(other)
      ? { sets: { 'model.kvHeads': wholeOf(value) } }
      : {
          effect: 'refused',
          why: 'a gpt has no groups of queries; a llama has them (--swiglu --normalization RMSNorm)',
        },
  ),
  rotary_base: decides('model.ropeTheta', ({ value, other }) =>
    isLlama(other)
      ? { sets: { 'model.ropeTheta': numberOf(value) } }
      : { effect: 'none', why: 'a gpt has learned positions here' },
  ),
  norm_epsilon: decides('model.normEps', ({ value, other }) =>
    isLlama(other)
      ? { sets: { 'model.normEps': numberOf(value) } }
      : { effect: 'none', why: 'the epsilon of a gpt is 1e-5 here' },
  ),
  num_experts: decides('model.experts', ({ value: given }) => {
    const [value, ...more] = [given].flat();
    if (more.some((other) => other !== value))
      return { effect: 'refused', why: 'all blocks have the same number of experts here' };
    return wholeOf(value) === 1
      ? { effect: 'none', why: 'one expert is a layer without experts' }
      : { sets: { 'model.experts': wholeOf(value), 'model.kind': 'moe' } };
  }),
  moe_router_topk: decides('model.topK', (input) =>
    ofExperts(
      wholeOf(input.value) === 1
        ? { 'model.router': 'switch' } // the factor of the only chosen expert is its probability among all
        : { 'model.topK': wholeOf(input.value), 'model.router': 'topk' },
      input,
    ),
  ),
  moe_aux_loss_coeff: decides('model.auxLossWeight', (input) =>
    ofExperts({ 'model.auxLossWeight': numberOf(input.value) }, input),
  ),
  moe_expert_capacity_factor: decides('model.capacityFactor', (input) =>
    ofExperts({ 'model.capacityFactor': numberOf(input.value) }, input),
  ),
  moe_router_bias_update_rate: decides('model.biasUpdateRate', (input) =>
    ofExperts({ 'model.biasUpdateRate': numberOf(input.value) }, input),
  ),
  ...settingKeys('megatron', { 'data.seq': { seq_length: size('model.seq') } }),
  ...flags({
    untie_embeddings_and_output_weights: decides('model.tied', () => ({ sets: { 'model.tied': false } })),
    add_qkv_bias: decides('model.qkvBias', ({ other }) =>
      isLlama(other)
        ? { sets: { 'model.qkvBias': true } }
        : { effect: 'none', why: 'a gpt has this bias here in any case' },
    ),
    swiglu: none('with --normalization RMSNorm, the model is a llama'),
    group_query_attention: none('--num-query-groups decides this'),
    use_flash_attn: decides('model.attention', () => ({ sets: { 'model.attention': 'flash' } })),
    disable_bias_linear: none("the model's kind decides: llama has no biases, gpt has them"),
    use_rotary_position_embeddings: none(
      "the model's kind decides: llama has rotary positions, gpt learned ones",
    ),
  }),
  normalization: none("the model's kind decides: llama has RMSNorm, gpt LayerNorm"),
  position_embedding_type: none("the model's kind decides: llama has rotary positions, gpt learned ones"),
  max_position_embeddings: none('the model has --seq-length positions'),
  attention_backend: both(ATTENTION, ({ config }) => {
    const shape = modelShape(config);
    return 'attention' in shape && shape.attention === 'flash' ? 'flash' : 'unfused';
  }),
  kv_channels: none('the width of a head is dim / heads here'),
  rotary_percent: refused('whole heads are rotated here', (value) => numberOf(value) === 1),
  make_vocab_size_divisible_by: none('the vocabulary is not padded here'),
  init_method_std: none('initial values have the deviation 0.02 here'),
};

/** Returns settings of experts, if the arguments give the model experts. */
function ofExperts(sets: Patch, { other }: KeyInput): Translation {
  return isMoe(other)
    ? { sets }
    : { effect: 'none', why: 'is for the experts of a model, and this model has none (--num-experts)' };
}

/** Whether the model has experts; one expert is a layer without experts. */
export function isMoe(other: KeyInput['other']): boolean {
  return Number(other('num_experts') ?? 1) > 1;
}

/** Whether arguments describe a llama. */
export function isLlama(other: KeyInput['other']): boolean {
  if (isMoe(other)) return false;
  return other('swiglu') !== undefined || String(other('normalization')) === 'RMSNorm';
}
