import {
  decides,
  isNothing,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  refused,
} from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { numberOf } from '../rows/values';
import { SWIFT } from './swift';
import { swiftData } from './swift-data';

// `swift rlhf --rlhf_type dpo`. Source: ms-swift's Command-line-parameters.md, section RLHF arguments.

const isOff = (value: unknown): boolean => isNothing(value) || /^(false|0)$/i.test(String(value));

/** Returns rows of a training on pairs, which `swift rlhf` and `trl dpo` share. */
export function preferenceKeys(dataset: KeyRow): KeyTable {
  return {
    dataset: decides('data.preferences', (input) => {
      const meaning = dataset.mean(input);
      const files = meaning.sets?.['data.path'] ?? meaning.sets?.['data.instructions'];
      return files === undefined ? meaning : { sets: { 'data.preferences': files } };
    }),
    beta: decides('dpo.beta', ({ value }) => ({ sets: { 'dpo.beta': numberOf(value) } })),
    loss_type: refused(
      "the loss is DPO's own (sigmoid) here",
      (value) => [value].flat().every((name) => String(name) === 'sigmoid'),
      'is the loss here',
    ),
    rpo_alpha: refused('the loss has no part of supervised fine-tuning here; leave it out'),
    loss_weights: refused('the loss has one part here; leave it out'),
    ld_alpha: refused(
      'all tokens of an answer count alike here; leave it out',
      (value) => isNothing(value) || Number(value) === 1,
      'counts all tokens alike, as here',
    ),
    f_divergence_type: refused(
      'the divergence is the reverse Kullback-Leibler divergence here; leave it out',
      (value) => /reverse_kl$/i.test(String(value)),
      'is the divergence here',
    ),
    reference_free: refused('the loss needs its reference model here; leave it out', isOff),
    use_weighting: refused('all pairs have the same weight here; leave it out', isOff),
    ref_adapters: refused(
      'the reference model has the first weights of the trained model here; leave it out',
    ),
    ref_model: REFERENCE,
    ref_model_name_or_path: REFERENCE,
    sync_ref_model: refused('the reference model never changes here', isOff),
    precompute_ref_log_probs: none('the reference model runs before each forward; the losses are the same'),
    ref_model_init_kwargs: none('models are read from your own folders'),
  };
}

/** The reference model: here always the first weights of the trained model. */
const REFERENCE = decides('dpo', ({ value, other }: KeyInput) => {
  const model = other('model') ?? other('model_name_or_path');
  return isNothing(value) || String(value) === String(model)
    ? { effect: 'none', why: 'the reference model has the first weights of the trained model' }
    : {
        effect: 'refused',
        why: 'the reference model has the first weights of the trained model here; leave it out',
      };
});

/** The kinds of `--rlhf_type` that are not trained here, and what trains them. */
function kind({ value }: KeyInput) {
  return String(value) === 'dpo'
    ? ({ effect: 'used', why: 'trains on pairs of answers' } as const)
    : ({
        effect: 'refused',
        why: `${String(value)} is not trained here; swift rlhf and TRL train it`,
      } as const);
}

const { dataset = none('names the data'), ...SWIFT_DATA } = swiftData(() => false);

/** `swift rlhf --rlhf_type dpo`, whose other arguments are those of `swift sft`. */
export const SWIFT_RLHF: Dialect = {
  ...SWIFT,
  keys: {
    ...SWIFT.keys,
    ...SWIFT_DATA,
    ...preferenceKeys(dataset),
    rlhf_type: decides('dpo', kind),
    packing: refused('a row has one answer of a pair here; leave it out', isOff, 'is off'),
    label_smoothing: decides('dpo.labelSmoothing', ({ value }) => ({
      sets: { 'dpo.labelSmoothing': numberOf(value) },
    })),
  },
  usual: (argument) => {
    const { usual, why, ...others } = SWIFT.usual?.(argument) ?? {};
    return {
      ...others,
      usual: { ...usual, 'dpo.beta': 0.1 },
      why: `${why ?? ''}; rlhf_type dpo has beta 0.1`,
    };
  },
};

/** The commands of swift that train on conversations and on pairs of answers. */
export const SWIFT_COMMANDS = { sft: SWIFT, rlhf: SWIFT_RLHF } as const;
