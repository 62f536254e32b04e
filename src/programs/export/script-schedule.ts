import type { ScheduleConfig, TrainConfig } from '../../config';

/** Returns the numbers of a schedule. */
export function scheduleNumbers(
  { schedule, steps }: TrainConfig,
  least: number,
): Readonly<Record<string, string>> {
  if (schedule === null) return {};
  const fall = fallOf(schedule, steps);
  return {
    WARMUP_STEPS: `${schedule.warmupSteps}`,
    GAMMA: `${schedule.gamma}`,
    STEP_SIZE: `${schedule.stepSize}`,
    FALL_START: `${fall.start}`,
    FALL_STEPS: `${fall.steps}`,
    LEAST: `${least}`,
  };
}

/** Returns the share of the learning rate that a schedule leaves at its end. */
export function leastOf({ schedule, optimizer }: TrainConfig): number {
  return schedule === null || optimizer.lr === 0 ? 0 : schedule.etaMin / optimizer.lr;
}

/** Returns the step at which the learning rate begins to fall, and the number of steps in which it falls. */
function fallOf(
  schedule: ScheduleConfig,
  runSteps: number,
): { readonly start: number; readonly steps: number } {
  const { kind, warmupSteps, maxSteps = runSteps } = schedule;
  const span = maxSteps - warmupSteps;
  if (kind === 'WarmupCosineLR') return { start: warmupSteps - 1, steps: span };
  if (kind !== 'wsd') return { start: warmupSteps, steps: span };
  const steps = schedule.decaySteps ?? Math.max(1, Math.round(span / 5));
  return { start: maxSteps - steps, steps };
}

/** Returns what is decided about a schedule. */
export function scheduleFlags(config: TrainConfig): Readonly<Record<string, boolean>> {
  const { schedule } = config;
  const kind = schedule?.kind ?? 'constant';
  const fall = kind === 'wsd' ? schedule?.decayType : kind === 'linear' ? 'linear' : 'cosine';
  return {
    HAS_SCHEDULE: schedule !== null,
    WARMS_UP: (schedule?.warmupSteps ?? 0) > 0,
    IS_STEPWISE: kind === 'step',
    IS_EXPONENTIAL: kind === 'exponential',
    FALLS: kind !== 'constant',
    HAS_LEAST: leastOf(config) !== 0,
    IS_COSINE: fall === 'cosine',
    IS_LINEAR: fall === 'linear',
  };
}
