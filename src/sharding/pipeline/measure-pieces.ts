import { alias, openThreadCpuClock, type Seconds } from '../../core';
import * as tf from '../../core/tf';
import { currentDraws, type Engine, type PartPass, recordPart, untracked } from '../../engine';
import { type Module, stateBuffers } from '../../nn';
import type { ProcessGroup } from '../../wire';
import type { ModelPiece } from './pieces';
import type { LossFn } from './pipeline-context';

/** A microbatch on which pieces are timed. */
export interface TimedMicrobatch {
  readonly x: tf.Tensor;
  /** The target that the loss reads; without a target, the time of the loss does not count. */
  readonly target?: unknown;
  readonly lossFn?: LossFn<never> | undefined;
}

/** The engine and the ranks that time pieces. */
export interface MeasureContext {
  readonly engine: Engine;
  /** All ranks, which must divide the model at the same places. */
  readonly world: ProcessGroup;
}

/** The first trials also load code and allocate memory, so only the shortest trial counts. */
const NUM_TRIALS = 4;

/**
 * Returns how long forward and backward of each piece take: CPU time if the system reports it, because ranks share cores.
 * Values of a piece are made for its trials and freed afterwards, so a rank needs memory for one piece at a time. Every rank must
 * call this function, because a piece may have collectives. All ranks get the times of the first rank, so they all cut the model
 * at the same places. In a dry run, the simulated clock gives the times. Nothing is trained: gradients are freed, buffers keep
 * their values, and later random numbers are the same.
 */
export function measurePieces(
  model: Module,
  pieces: readonly ModelPiece[],
  example: TimedMicrobatch,
  { engine, world }: MeasureContext,
): Seconds[] {
  const draws = { ...currentDraws() };
  const wasTraining = model.training;
  // Running statistics of normalization do not change in eval mode.
  model.train(false);
  try {
    return agreed(engine, world, timesOf(engine, pieces, example));
  } finally {
    model.train(wasTraining);
    Object.assign(currentDraws(), draws);
  }
}

function timesOf(
  engine: Engine,
  pieces: readonly ModelPiece[],
  { x, target, lossFn }: TimedMicrobatch,
): Seconds[] {
  const cpu = engine.hasValues ? openThreadCpuClock() : undefined;
  const clock = cpu ?? (() => engine.clock.now());
  let input = untracked(() => tf.keep(alias(x)));
  try {
    return pieces.map((piece, i) => {
      const isLast = i === pieces.length - 1;
      const forward = (): tf.Tensor => {
        if (!isLast || target === undefined) return piece.run(input);
        if (lossFn === undefined) return piece.run(input, target as tf.Tensor); // the model's own loss takes a tensor
        return lossFn(piece.run(input), target as never); // the caller gives a target of the type that the loss takes
      };
      const part = { input: i === 0 ? null : input, forward, isLoss: isLast && target !== undefined };
      const { seconds, output } = withValues(piece, () =>
        shortest(clock, () => recordPart(engine, part), piece),
      );
      input.dispose();
      input = output;
      return seconds;
    });
  } finally {
    input.dispose();
  }
}

/** Runs forward and backward several times. The caller owns the output. */
function shortest(clock: () => Seconds, record: () => PartPass, { modules }: ModelPiece) {
  let seconds = Number.POSITIVE_INFINITY;
  let output: tf.Tensor | null = null;
  for (let trial = 0; trial < NUM_TRIALS; trial++) {
    output?.dispose();
    const start = clock();
    const pass = record();
    output = untracked(() => tf.keep(pass.output));
    pass.backward(untracked(() => tf.ones(pass.output.shape)))?.dispose();
    seconds = Math.min(seconds, clock() - start);
    for (const state of stateBuffers(modules.flatMap((module) => module.parameters()))) state.zeroGrad();
  }
  return { seconds, output: output as unknown as tf.Tensor }; // there is at least one trial
}

/** Runs `work`, which makes the piece's deferred values, and then frees and defers these values again. */
function withValues<T>({ modules }: ModelPiece, work: () => T): T {
  const deferred = [...new Set(modules.flatMap((module) => module.parameters()))].flatMap((parameter) => {
    const { source } = parameter;
    return source === null ? [] : [{ parameter, source }];
  });
  try {
    return work();
  } finally {
    for (const { parameter, source } of deferred) {
      if (parameter.isWhole) parameter.free();
      parameter.defer(source);
    }
  }
}

/**
 * Returns the first rank's times on all ranks. A dry run returns this rank's times, because the other ranks' times are equal.
 */
function agreed(engine: Engine, world: ProcessGroup, times: readonly Seconds[]): Seconds[] {
  const tensor = engine.tagged({ cause: 'comm', module: '' }, () => tf.tensor1d([...times], 'float32'));
  try {
    world.broadcast(tensor, 0, { cause: 'control' }).wait();
    return engine.hasValues ? [...tensor.dataSync()] : [...times];
  } finally {
    tensor.dispose();
  }
}
