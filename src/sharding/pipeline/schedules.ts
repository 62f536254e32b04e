import type { PipelineScheduleName } from '../../config';
import { ConfigError, isWhole } from '../../core';

/**
 * The kinds of computation that a stage does with one microbatch. Zero-bubble schedules divide backward into 'backwardInput'
 * (the gradient for which the previous stage waits) and 'backwardWeight' (the gradients of parameters, for which no stage
 * waits).
 */
export type ActionKind = 'forward' | 'backward' | 'backwardInput' | 'backwardWeight';

/** One action of a rank: a microbatch passes through one of the rank's chunks (its virtual stages). */
export interface Action {
  readonly kind: ActionKind;
  /** The index of the microbatch, from 0. */
  readonly microbatch: number;
  /** The index of the chunk on its rank, from 0; always 0 without virtual stages. */
  readonly chunk: number;
}

/** The sizes of a pipeline. */
export interface PipelineSizes {
  /** The number of ranks of the pipeline. */
  readonly numRanks: number;
  /** The number of microbatches per step. */
  readonly numMicrobatches: number;
  /** The number of chunks (virtual stages) per rank. Only 'interleaved' has more than 1. */
  readonly virtualStages: number;
}

/**
 * Returns the actions of one rank of a pipeline in their order. `rank` is the rank's index in the pipeline. In the table, the
 * pipeline has P ranks, M microbatches and V chunks per rank. Throws: CONFIG for sizes with which the schedule cannot run.
 *
 * | schedule | order | activations in flight on rank p |
 * |---|---|---|
 * | gpipe | all forwards, then all backwards (Huang et al. 2019) | M |
 * | 1f1b | P-1-p forwards, then one forward and one backward in turn (Narayanan et al. 2019) | min(M, P-p) |
 * | interleaved | as 1f1b, but the rank changes to its next chunk after every P microbatches (Megatron-LM, Narayanan et al. 2021) | min(VM, 2(P-1-p) + (V-1)P + 1) chunks |
 * | zb | as 1f1b, but the gradients of parameters are computed later (ZB-H1, Qi et al. 2023) | min(M, P) |
 */
export function actionsOf(name: PipelineScheduleName, sizes: PipelineSizes, rank: number): readonly Action[] {
  checkSizes(name, sizes);
  switch (name) {
    case 'gpipe':
      return gpipe(sizes);
    case '1f1b':
      return oneForwardOneBackward(sizes, rank);
    case 'interleaved':
      return interleaved(sizes, rank);
    case 'zb':
      return zeroBubble(sizes, rank);
    default:
      return name satisfies never;
  }
}

/** Returns the actions of one rank that only runs the forward of one batch. */
export function forwardsOf(virtualStages: number): readonly Action[] {
  return Array.from({ length: virtualStages }, (_, chunk) => forward(0, chunk));
}

/**
 * Returns the largest number of forwards in flight on the rank: forwards that have run, but whose backward (of zero-bubble
 * schedules: its second half) has not run.
 */
export function mostInFlight(actions: readonly Action[]): number {
  const splits = actions.some(({ kind }) => kind === 'backwardWeight');
  const frees = splits ? 'backwardWeight' : 'backward';
  let live = 0;
  let most = 0;
  for (const { kind } of actions) {
    if (kind === 'forward') most = Math.max(most, ++live);
    else if (kind === frees) live--;
  }
  return most;
}

/** How long a stage takes for the forward and for each half of the backward of a microbatch, in any unit. */
export type ActionTimes = Readonly<Record<Exclude<ActionKind, 'backward'>, number>>;

const EQUAL_TIMES: ActionTimes = { forward: 1, backwardInput: 1, backwardWeight: 1 };

/**
 * Returns the bubble as a share of the step's time, for stages that take equal time and transfers that take no time:
 * (P-1)/(VM+P-1) with P ranks, M microbatches and V chunks per rank. The bubble of 'zb' depends on the time F of forward and the
 * times B and W of the halves of backward: each rank is idle for (P-1) max(F+B-W, F, B). With equal times, the share is
 * (P-1)/(3M+P-1). Source: Qi et al. 2023, table 1.
 */
export function bubbleShare(
  name: PipelineScheduleName,
  { numRanks, numMicrobatches, virtualStages }: PipelineSizes,
  { forward: f, backwardInput: b, backwardWeight: w }: ActionTimes = EQUAL_TIMES,
): number {
  const isSplit = name === 'zb';
  const idle = (numRanks - 1) * (isSplit ? Math.max(f + b - w, f, b) : 1);
  const work = numMicrobatches * (isSplit ? f + b + w : virtualStages);
  return idle / (work + idle);
}

function checkSizes(name: PipelineScheduleName, sizes: PipelineSizes): void {
  const { numRanks, numMicrobatches, virtualStages } = sizes;
  for (const [sizeName, value] of Object.entries(sizes)) {
    if (!isWhole(value, 1))
      throw new ConfigError(`pipeline: ${sizeName} is ${value}, but must be an integer of at least 1`);
  }
  if (name !== 'interleaved') {
    if (virtualStages === 1) return;
    throw new ConfigError(
      `pipeline: schedule '${name}' has one stage per rank, not ${virtualStages}; use 'interleaved' for virtual stages`,
    );
  }
  if (numMicrobatches % numRanks === 0) return;
  throw new ConfigError(
    `pipeline: 'interleaved' runs rounds of one microbatch per rank, but ${numMicrobatches} microbatches are no whole ` +
      `rounds of ${numRanks}; give a multiple of ${numRanks}, or use '1f1b'`,
  );
}

const forward = (microbatch: number, chunk = 0): Action => ({ kind: 'forward', microbatch, chunk });
const backward = (microbatch: number, chunk = 0): Action => ({ kind: 'backward', microbatch, chunk });

function gpipe({ numMicrobatches }: PipelineSizes): Action[] {
  const indices = Array.from({ length: numMicrobatches }, (_, i) => i);
  return [...indices.map((i) => forward(i)), ...indices.map((i) => backward(i))];
}

function oneForwardOneBackward({ numRanks, numMicrobatches }: PipelineSizes, rank: number): Action[] {
  return inTurn(
    numMicrobatches,
    numRanks - 1 - rank,
    (i) => forward(i),
    (i) => [backward(i)],
  );
}

/** Source: Megatron-LM, core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving. */
function interleaved({ numRanks, numMicrobatches, virtualStages }: PipelineSizes, rank: number): Action[] {
  const round = numRanks * virtualStages;
  const place = (index: number): { microbatch: number; chunk: number } => ({
    microbatch: Math.floor(index / round) * numRanks + (index % numRanks),
    chunk: Math.floor((index % round) / numRanks),
  });
  const warmUp = 2 * (numRanks - 1 - rank) + (virtualStages - 1) * numRanks;
  return inTurn(
    numMicrobatches * virtualStages,
    warmUp,
    (index) => forward(place(index).microbatch, place(index).chunk),
    (index) => [backward(place(index).microbatch, virtualStages - 1 - place(index).chunk)],
  );
}

/**
 * On rank p, a microbatch's gradients of parameters wait until the gradients of inputs of p later microbatches are computed. So
 * gradients reach earlier stages sooner, and the last p gradients of parameters fill the time in which the rank would be idle at
 * the end. Source: Qi et al. 2023, section 2.2.
 */
function zeroBubble({ numRanks, numMicrobatches }: PipelineSizes, rank: number): Action[] {
  const inputOf = (microbatch: number): Action => ({ kind: 'backwardInput', microbatch, chunk: 0 });
  const weightOf = (microbatch: number): Action => ({ kind: 'backwardWeight', microbatch, chunk: 0 });
  const actions = inTurn(
    numMicrobatches,
    numRanks - 1 - rank,
    (i) => forward(i),
    (i) => (i < rank ? [inputOf(i)] : [inputOf(i), weightOf(i - rank)]),
  );
  const left = Array.from({ length: Math.min(rank, numMicrobatches) }, (_, i) => i).reverse();
  return [...actions, ...left.map((i) => weightOf(numMicrobatches - 1 - i))];
}

/** Runs `warmUp` forwards, then one forward and one backward in turn, then the backwards that are left. */
function inTurn(
  total: number,
  warmUp: number,
  forwardOf: (index: number) => Action,
  backwardOf: (index: number) => readonly Action[],
): Action[] {
  const ahead = Math.min(warmUp, total);
  const actions: Action[] = [];
  for (let i = 0; i < ahead; i++) actions.push(forwardOf(i));
  for (let i = ahead; i < total; i++) actions.push(forwardOf(i), ...backwardOf(i - ahead));
  for (let i = total - ahead; i < total; i++) actions.push(...backwardOf(i));
  return actions;
}
