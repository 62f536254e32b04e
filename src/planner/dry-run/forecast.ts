import type { TrainConfig } from '../../config';
import { type Bytes, type CommCause, ShardlabError, sumOf } from '../../core';
import { type BytesByCause, memoryOverTime, modelStatesOf, noBytes, type StepRecord } from '../../ledger';
import { type MetaOwn, runRank } from './rank-run';

/** Prediction of each step after the first, from a dry run. */
export interface RunForecast {
  /** Model states of rank 0 on the device, by cause. */
  readonly states: BytesByCause;
  /** For each cause, the most bytes that rank 0's device holds at any moment. */
  readonly peaks: BytesByCause;
  /** Bytes that a rank receives for parameters and for gradients per step; the mean over ranks if they differ. */
  readonly wireBytes: { readonly param: Bytes; readonly grad: Bytes };
}

/**
 * Predicts a step of a config's run, counted from 1. Returns null if memory depends on values, which a dry run does not have,
 * or if the run has functions of the user that can only be called in ranks.
 */
export function forecastRun(
  config: TrainConfig,
  world: number,
  own?: MetaOwn,
  step = Number.POSITIVE_INFINITY,
): RunForecast | null {
  try {
    return forecastOf(hookAt(config, step), world, own);
  } catch (error) {
    if (own !== undefined) return null;
    if (error instanceof ShardlabError && error.code === 'ENGINE') return null;
    throw error;
  }
}

/**
 * Returns the config for the two steps of a forecast: if PowerSGD compresses in step `step`, it compresses from the first step
 * on; otherwise the config has no PowerSGD.
 */
function hookAt(config: TrainConfig, step: number): TrainConfig {
  const { commHook } = config.parallel;
  if (commHook?.kind !== 'powerSGD') return config;
  const isStarted = step > commHook.startPowerSGDIter;
  return {
    ...config,
    parallel: { ...config.parallel, commHook: isStarted ? { ...commHook, startPowerSGDIter: 0 } : null },
  };
}

function forecastOf(config: TrainConfig, world: number, own: MetaOwn | undefined): RunForecast {
  // A run has two steps by default.
  const stepOf = (rank: number): StepRecord => runRank({ config, world, rank, own }).records[1] as StepRecord;
  // The first step makes optimizer states; the second is like all later steps.
  const first = stepOf(0);
  const { byCause } = memoryOverTime(first);
  const peaks = noBytes();
  for (const cause of Object.keys(peaks) as (keyof BytesByCause)[])
    peaks[cause] = Math.max(...byCause[cause]); // the keys of `peaks`
  return { states: modelStatesOf(first), peaks, wireBytes: meanReceived(first, world, stepOf) };
}

/**
 * Returns the mean number of bytes that a rank receives. In a ring, the last part differs most in size. So if the first and the
 * last rank receive the same number of bytes, all ranks do.
 */
function meanReceived(
  first: StepRecord,
  world: number,
  stepOf: (rank: number) => StepRecord,
): RunForecast['wireBytes'] {
  const own = { param: received(first, 'param'), grad: received(first, 'grad') };
  if (world === 1) return own;
  const last = stepOf(world - 1);
  if (received(last, 'param') === own.param && received(last, 'grad') === own.grad) return own;
  const between = Array.from({ length: world - 2 }, (_, i) => stepOf(i + 1));
  const mean = (cause: CommCause): Bytes =>
    sumOf([first, ...between, last], (record) => received(record, cause)) / world;
  return { param: mean('param'), grad: mean('grad') };
}

function received({ collectives }: StepRecord, cause: CommCause): Bytes {
  return sumOf(collectives, (event) => (event.cause === cause ? event.wireBytes : 0));
}
