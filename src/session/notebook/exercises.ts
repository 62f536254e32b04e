import { DISPLAY, type DisplayBundle } from '../../core';
import { escapeHtml } from '../../figures';

type Answer = { readonly because: string } & (
  | { readonly number: number; readonly tolerance?: number }
  | { readonly least: number; readonly most: number }
  | { readonly words: readonly string[] }
);

/** Answers to the notebooks' exercises, by the exercise's name. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  '00.mean': {
    number: 1.5,
    tolerance: 1e-6,
    because: '(0 + 1 + 2 + 3) / 4 on every rank, by one all-reduce',
  },
  '00.cause': {
    words: ['activation', 'temp', 'batch'],
    because: 'activations, the loss’s temporaries and the batch itself grow with the batch; states do not',
  },
  '01.world': {
    number: 10,
    because: '2 Ψ + 14 Ψ / W ≤ 24 GB with Ψ = 7 billion parameters on W GPUs: W ≥ 98 / 10',
  },
  '01.halved': {
    number: 0.5,
    tolerance: 0.02,
    because:
      'with half the sequences per microbatch, activations are halved; two microbatches make the same step',
  },
  '02.collectives': {
    number: 10,
    because:
      'there are three units: 3 all-gathers in forward, 2 in backward, 3 reduce-scatters, and 2 collectives that each carry one number',
  },
  '02.bytes': {
    number: 6_382_080,
    because:
      'there are one all-gather and one reduce-scatter of 4 N bytes each (N parameters); a rank receives 3/4 of these bytes from other ranks',
  },
  '03.fit': {
    least: 1e6,
    most: 16e6,
    because:
      'recompute does not store the activations of the blocks; offload.activations stores them on the host instead. With either setting, states, logits and the activations of one block remain',
  },
  '03.interval': {
    number: 2,
    because: 'layers 0 and 2 store only their inputs, and layers 1 and 3 store A bytes each: (L − L / k) · A',
  },
  '04.microbatches': {
    number: 27,
    because:
      '3 / (m + 3) ≤ 0.1 for m ≥ 27; with as many microbatches as stages (4), 43% of the time would be idle',
  },
  '04.backward': {
    words: ['column', 'the column half', 'columns'],
    because:
      'each rank gets a part of the gradient of x from its own columns, and the sum over ranks is the gradient. The gradient that enters the row half is whole on every rank',
  },
  '05.bytes': {
    number: 4,
    tolerance: 0.1,
    because: '12.8 · 2³⁰ · 8 / 27·10⁹ = 4.07 bytes, which means float32, though the document says bf16',
  },
  '05.share': {
    number: 25,
    because: '(N − 1) · a = 2(N − 1)/N at a = 2/N: a quarter for 8 ranks',
  },
  '06.cards': {
    number: 4,
    because: '1 − 1/W is 75% for W = 4 GPUs; for 8 GPUs it is 87.5%',
  },
  '06.samples': {
    number: 61,
    tolerance: 0.5,
    because: '256 samples / 4.2 s = 61 samples per second; the document states 128',
  },
  '06.microbatches': {
    number: 27,
    because: 'p − 1 of m + p − 1 slots are idle: 3 / (m + 3) is 10% for m = 27',
  },
  '07.cheapest': {
    number: 32,
    because:
      '6 × 8·10⁹ × 20·10⁹ operations in a day are about 11 PFLOP/s: 16 GPUs would need 70% of their peak',
  },
  '07.twice': {
    words: ['dearer', 'more expensive'],
    because:
      'each GPU does half the work but gathers the same bytes: the time falls by less than half, so GPU hours rise',
  },
  '08.rounds': {
    number: 6,
    because:
      'in round i, each rank r below 2^i sends to rank r + 2^i (if there is one), so 2, 4, 8, … ranks have the value; after 6 rounds, all 64 = 2^6 ranks have it',
  },
  '08.uneven': {
    number: 40,
    because:
      'in each of 2 rounds of the reduce-scatter and 2 of the all-gather, the three chunks travel once each: 4 × 10 elements, 2(N − 1) n',
  },
  '10.none': {
    number: 16,
    tolerance: 3,
    because: '16 lines have defaults, switch off unused features, or belong to other hardware or to stage 3',
  },
  '10.differ': {
    number: 1,
    because: 'machine_rank is the number of the machine; all else is the same on every machine',
  },
  '10.keys': {
    words: ['num_machines, num_processes', 'num_machines,num_processes', 'num_machines and num_processes'],
    because: '3 machines and 3 × 8 = 24 processes; machine 3 and its file are not needed any more',
  },
  '10.ignored': {
    words: ['machine_rank'],
    because:
      'the c10d backend numbers the machines in the order in which they meet; a static rendezvous needs the number',
  },
  '11.cause': {
    words: ['comm'],
    because:
      'FSDP2 holds buffers for its all-gathers and reduce-scatters; ranks of this library share memory and need none',
  },
  '11.setting': {
    words: ['optimizer.lr', 'lr'],
    because: 'the learning rate decides what a step computes, so the runs cannot agree',
  },
  '12.right': {
    words: ['adamw(fused=true)', 'adamw', 'torch.optim.adamw(fused=true)'],
    because:
      'the fused AdamW exists as the document writes it; the other three names are refused or never existed',
  },
  '12.hang': {
    words: ['optim_state_dict', 'fsdp.optim_state_dict', 'optimstatedict', 'fsdp.optimstatedict'],
    because: 'this function gathers from all ranks, but only rank 0 calls it',
  },
  '13.gathers': {
    number: 7,
    because: 'forward gathers the root and three layers; backward gathers the three layers again',
  },
  '13.float32': {
    number: 474_112,
    because:
      'each parameter that is gathered takes four bytes in place of two, so the bytes are twice 237,056',
  },
  '14.collectives': {
    number: 106,
    because: 'each of 53 norms takes an all-gather in forward and an all-reduce in backward',
  },
  '14.norm': {
    words: ['groupnorm', 'nn.groupnorm', 'instancenorm2d', 'nn.instancenorm2d', 'layernorm', 'nn.layernorm'],
    because:
      'this layer normalizes each image by the image’s own statistics; in the model, write nn.GroupNorm(4, channels)',
  },

  '15.adapter': {
    number: 4096,
    because: 'one matrix has 8 × 128 values, and the other matrix has 384 × 8',
  },
  '15.merged': {
    number: 0,
    because: 'merging adds the product of two matrices to the layer’s matrix, whose shape does not change',
  },
};

/** The result of a check; a wrong answer is not an error. */
export interface Verdict {
  readonly id: string;
  readonly outcome: 'right' | 'wrong' | 'skipped' | 'unknown';
  readonly text: string;
  [DISPLAY](): DisplayBundle;
}

/**
 * Compares a value with the exercise's answer; a list is right if each of its values is right. A promise must be
 * awaited before this call. Never throws.
 */
export function checkExercise(id: string, value?: unknown): Verdict {
  const answer = Object.hasOwn(ANSWERS, id) ? ANSWERS[id] : undefined;
  if (answer === undefined) return verdict(id, 'unknown', `there is no exercise '${id}'`);
  const answers = Array.isArray(value) ? value.flat(3) : [value];
  if (answers.length > 0 && answers.every(isSkipped)) {
    return verdict(id, 'skipped', 'skipped; the notebook continues without it');
  }
  const isRight = answers.length > 0 && answers.every((one) => matches(one, answer));
  if (isRight) return verdict(id, 'right', `right: ${answer.because}`);
  return verdict(id, 'wrong', `${shown(value)} is not right yet.${hintOf(answers, answer)}`);
}

/** Returns a sentence about the form that an answer must have; '' if the user gave one number and the answer is a number. */
function hintOf(answers: readonly unknown[], answer: Answer): string {
  if ('words' in answer)
    return ' Give a word that the exercise or its figure offers, or a name as it is written in the code of the exercise.';
  const isOneNumber = typeof answers[0] === 'number' && new Set(answers).size === 1;
  return isOneNumber ? '' : ' Give a number; if ranks answer, every rank must give the same number.';
}

function isSkipped(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    value === '' ||
    (typeof value === 'number' && Number.isNaN(value))
  );
}

function matches(value: unknown, answer: Answer): boolean {
  if ('words' in answer)
    return typeof value === 'string' && answer.words.includes(value.trim().toLowerCase());
  if (typeof value !== 'number') return false;
  if ('least' in answer) return value >= answer.least && value <= answer.most;
  return Math.abs(value - answer.number) <= (answer.tolerance ?? 0);
}

function shown(value: unknown): string {
  try {
    return (JSON.stringify(value) ?? String(value)).slice(0, 80);
  } catch {
    return typeof value;
  }
}

const MARKS = { right: '✓', wrong: '✗', skipped: '–', unknown: '?' } as const;

function verdict(id: string, outcome: Verdict['outcome'], text: string): Verdict {
  const line = `${MARKS[outcome]} ${id}: ${text}`;
  return {
    id,
    outcome,
    text,
    [DISPLAY]: () => ({ 'text/html': `<div>${escapeHtml(line)}</div>`, 'text/plain': line }),
  };
}
