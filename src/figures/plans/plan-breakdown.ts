import type { Bytes, Seconds } from '../../core/units';
import type { Planned } from '../../plan/cost-of';
import type { Layout } from '../../plan/layout';
import { reservableBytes } from '../../plan/memory/allocator';
import { type Prediction, peakInBytes } from '../../plan/prediction';
import type { Figure } from '../figure';
import type { CauseBytes } from './breakdown-case';
import { memoryBreakdown } from './memory-breakdown';
import { layoutWords } from './plan-table';
import { timeBreakdown } from './time-breakdown';

/** A plan's memory at its peak, by cause. */
export function planMemory({ layout, prediction }: Planned): Figure {
  const capacityBytes: Bytes = reservableBytes(layout);
  const predicted = memoryCauses(prediction);
  return memoryBreakdown(
    [{ name: caseName(layout), predicted, predictedPeak: peakInBytes(prediction.memory), capacityBytes }],
    layoutWords(layout),
  );
}

/** A plan's iteration, by cause. */
export function planTime({ layout, prediction }: Planned): Figure {
  const seconds = timeCauses(prediction);
  const row = { name: caseName(layout), seconds, total: prediction.seconds, note: mfuNote(prediction) };
  return timeBreakdown([row], layoutWords(layout));
}

/** The planner's words for causes of memory, in the ledger's. */
export function memoryCauses({ memory }: Prediction): CauseBytes {
  const { params, grads, optimizer, activations, temporary } = memory;
  return {
    'param.shard': params,
    optimizer,
    'grad.shard': grads,
    activation: activations,
    temp: temporary,
  };
}

/** What an iteration's time goes into. */
export function timeCauses({ time }: Prediction): Readonly<Record<string, Seconds>> {
  return { ...time.computeByCause, communication: time.exposedComm, bubble: time.bubble };
}

/** As '41% MFU'. */
export function mfuNote({ mfu }: Prediction): string {
  return `${Math.round(100 * mfu)}% MFU`;
}

function caseName({ model, gpus, hardware }: Layout): string {
  return `${model.name}, ${gpus} x ${hardware.name}`;
}
