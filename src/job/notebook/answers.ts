export type Answer =
  /** A number, within `tolerance`; a list is right when each of its numbers is. */
  | { readonly kind: 'number'; readonly value: number; readonly tolerance: number; readonly because: string }
  /** A number from `least` to `most`. */
  | { readonly kind: 'range'; readonly least: number; readonly most: number; readonly because: string }
  /** One of some words. */
  | { readonly kind: 'word'; readonly values: readonly string[]; readonly because: string };

/** Answers to the notebooks' exercises, by the exercise's name. */
export const ANSWERS: Readonly<Record<string, Answer>> = {
  '00.mean': {
    kind: 'number',
    value: 1.5,
    tolerance: 1e-6,
    because: '(0 + 1 + 2 + 3) / 4 on every rank, by one all-reduce',
  },
  '00.cause': {
    kind: 'word',
    values: ['activation', 'temp', 'batch'],
    because: 'activations, the loss’s temporaries and the batch itself grow with the batch; states do not',
  },
  '01.world': {
    kind: 'number',
    value: 10,
    tolerance: 0,
    because: '2 Ψ + 14 Ψ / N ≤ 24 GB with Ψ = 7 billion: N ≥ 98 / 10',
  },
  '01.halved': {
    kind: 'number',
    value: 0.5,
    tolerance: 0.02,
    because:
      'half the sequences a micro-batch save half the activations; two micro-batches make the same step',
  },
  '02.collectives': {
    kind: 'number',
    value: 10,
    tolerance: 0,
    because: 'three units: 3 gathers forward, 2 backward, 3 reductions, and two single numbers',
  },
  '02.bytes': {
    kind: 'number',
    value: 6_382_080,
    tolerance: 0,
    because: 'one gather and one reduction of 4 N bytes, of each of which 3/4 come from others',
  },
  '03.fit': {
    kind: 'range',
    least: 1e6,
    most: 16e6,
    because: 'recompute and offload take the activations; what is left are states, logits and one block',
  },
  '03.interval': {
    kind: 'number',
    value: 2,
    tolerance: 0,
    because: 'layers 0 and 2 keep their inputs only, layers 1 and 3 keep A each: (L − L / k) A',
  },
  '06.cards': {
    kind: 'number',
    value: 4,
    tolerance: 0,
    because: '1 − 1/N is 75% for N = 4; with 8 cards it is 87.5%',
  },
  '06.samples': {
    kind: 'number',
    value: 61,
    tolerance: 0.5,
    because: '256 samples / 4.2 s = 61 a second, where the document states 128',
  },
  '07.cheapest': {
    kind: 'number',
    value: 32,
    tolerance: 0,
    because:
      '6 × 8·10⁹ × 20·10⁹ operations in a day are some 11 PFLOP/s: 16 GPUs would need 70% of their peak',
  },
  '07.twice': {
    kind: 'word',
    values: ['dearer', 'more expensive'],
    because: 'half the work a GPU, the same gathers: time falls by less than half, GPU hours rise',
  },
  '12.right': {
    kind: 'word',
    values: ['adamw(fused=true)', 'adamw', 'torch.optim.adamw(fused=true)'],
    because: 'the fused AdamW exists as written; the other three are refused or never existed',
  },
  '12.hang': {
    kind: 'word',
    values: ['optim_state_dict', 'fsdp.optim_state_dict', 'optimstatedict', 'fsdp.optimstatedict'],
    because: 'it gathers from all ranks, and rank 0 alone calls it',
  },
};
