import { z } from 'zod';
import { type Facts, schemaOf } from '../setting';

/** The part of a config that the rules below read. */
export interface Read {
  readonly optimizer: { readonly lr: number };
  readonly schedule: ScheduleConfig | null;
  readonly steps: number;
}

type ScheduleKind = (typeof SCHEDULE_KINDS)[number];

const SCHEDULE_KINDS = [
  'WarmupCosineLR',
  'constant',
  'linear',
  'cosine',
  'wsd',
  'step',
  'exponential',
] as const;
/** The schedules whose rate falls to etaMin and that end at maxSteps. */
export const ENDING: readonly ScheduleKind[] = ['WarmupCosineLR', 'linear', 'cosine', 'wsd'];

const SCHEDULE_PARTS = {
  kind: {
    schema: z.enum(SCHEDULE_KINDS).default('WarmupCosineLR'),
    says: "how the rate changes after warmupSteps. 'WarmupCosineLR': it falls by half a cosine and reaches etaMin at step maxSteps; 'cosine': it reaches etaMin one step later; 'linear': as 'cosine', but it falls in a straight line; 'constant': it stays; 'wsd': it stays, then falls within decaySteps; 'step': it is multiplied by gamma every stepSize steps; 'exponential': it is multiplied by gamma in each step",
    words: {
      constantwithwarmup: 'constant',
      linearlr: 'linear',
      cosineannealinglr: 'cosine',
      warmupstabledecay: 'wsd',
      steplr: 'step',
      exponentiallr: 'exponential',
    },
  },
  warmupSteps: {
    schema: z.int().min(0).default(0),
    says: 'number of steps in which the rate rises: step n has n / warmupSteps of optimizer.lr',
    names: { transformers: ['warmup_steps', 'warmup_ratio'], deepSpeed: 'warmup_num_steps' },
    conflict: (config: Read): string | null => {
      const { kind, warmupSteps, end } = scheduleIn(config);
      if (!ENDING.includes(kind) || warmupSteps < end) return null;
      return `${warmupSteps} leaves nothing of maxSteps ${end} for the ${kind === 'WarmupCosineLR' ? 'cosine' : 'rest of the schedule'}; give fewer than ${end}`;
    },
  },
  maxSteps: {
    schema: z.int().min(1).optional(),
    says: 'the step at which the learning rate reaches etaMin; with cosine, linear and wsd, the rate reaches etaMin one step later. Default: `steps`',
    names: { torch: 'T_max', deepSpeed: 'total_num_steps' },
    idle: (config: Read): string | null => ofOtherSchedule(config, ENDING),
    warns: (facts: Facts<Read>): string | null => {
      const { steps } = facts.config;
      const { end } = scheduleIn(facts.config);
      return end > steps && facts.given('steps')
        ? `${end} is beyond the run's ${steps} steps: the learning rate does not fall to etaMin`
        : null;
    },
  },
  etaMin: {
    schema: z.number().min(0).default(0),
    says: 'the learning rate at the end of the schedule',
    names: { torch: 'eta_min' },
    idle: (config: Read): string | null => ofOtherSchedule(config, ENDING),
    conflict: (config: Read): string | null => {
      const { etaMin } = config.schedule ?? { etaMin: 0 };
      const { lr } = config.optimizer;
      return etaMin > lr
        ? `${etaMin} is above optimizer.lr ${lr}, from which the learning rate falls; give at most ${lr}`
        : null;
    },
  },
  decaySteps: {
    schema: z.int().min(1).optional(),
    says: 'number of steps in which the rate of wsd falls. Default: a fifth of the steps after warmup',
    names: { transformers: 'num_decay_steps' },
    idle: (config: Read): string | null => ofOtherSchedule(config, ['wsd']),
    conflict: (config: Read): string | null => {
      const { kind, warmupSteps, decaySteps = 0, end } = scheduleIn(config);
      return kind !== 'wsd' || warmupSteps + decaySteps <= end
        ? null
        : `${decaySteps} + warmupSteps ${warmupSteps} is more than maxSteps ${end}; give fewer`;
    },
  },
  decayType: {
    schema: z.enum(['cosine', 'linear', '1-sqrt']).default('cosine'),
    says: 'how wsd falls',
    names: { transformers: 'decay_type' },
    idle: (config: Read): string | null => ofOtherSchedule(config, ['wsd']),
  },
  stepSize: {
    schema: z.int().min(1).default(30),
    says: "with kind 'step', the number of training steps between two changes",
    names: { torch: 'step_size' },
    idle: (config: Read): string | null => ofOtherSchedule(config, ['step']),
  },
  gamma: {
    schema: z.number().positive().default(0.1),
    says: "with kinds 'step' and 'exponential', the factor of each change. Source of the default: torch.optim.lr_scheduler.StepLR",
    names: { torch: 'gamma' },
    idle: (config: Read): string | null => ofOtherSchedule(config, ['step', 'exponential']),
  },
} as const;

/** Returns the schedule with the step at which it ends. */
function scheduleIn({ schedule, steps }: Read) {
  const given = schedule ?? SCHEDULE_DEFAULTS;
  return { ...given, end: given.maxSteps ?? steps };
}

/** Returns the number of steps in which the rate of wsd falls, in a run of `steps` steps. */
export function decayStepsOf(
  { decaySteps, warmupSteps, maxSteps }: Pick<ScheduleConfig, 'decaySteps' | 'warmupSteps' | 'maxSteps'>,
  steps: number,
): number {
  return decaySteps ?? Math.max(1, Math.round(((maxSteps ?? steps) - warmupSteps) / 5));
}

function ofOtherSchedule(config: Read, kinds: readonly ScheduleKind[]): string | null {
  const { kind } = scheduleIn(config);
  return kinds.includes(kind) ? null : `has no effect with ${kind}; it is a setting of ${kinds.join(', ')}`;
}

const scheduleSchema = schemaOf(SCHEDULE_PARTS);

/** A schedule's default settings. */
export const SCHEDULE_DEFAULTS: ScheduleConfig = scheduleSchema.parse({});

export const SCHEDULE = {
  schema: scheduleSchema.nullable().default(null),
  says: 'how the learning rate changes. `null`: it is constant',
  form: "{ kind: 'cosine', warmupSteps: 10, maxSteps: 100, etaMin: 1e-5 } or null",
  names: { transformers: 'lr_scheduler_type', deepSpeed: 'scheduler' },
  parts: SCHEDULE_PARTS,
  changes: 'loss',
  planned: { ignored: 'the work does not depend on the value' },
} as const;

export type ScheduleConfig = Readonly<z.output<typeof scheduleSchema>>;
