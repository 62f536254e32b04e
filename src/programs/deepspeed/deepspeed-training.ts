import {
  allNone,
  decides,
  isNothing,
  type KeyInput,
  type KeyTable,
  none,
  refused,
  section,
  settingKeys,
  type Translation,
  warned,
  wrongValue,
} from '../rows/key-row';
import { number, numberOf, whole, wholeFromZero, wholeOf, word, yes, yesOf } from '../rows/values';

// Keys of the sections optimizer, scheduler, bf16 and fp16 of DeepSpeed's JSON.

/** Returns the optimizer for a type of DeepSpeed. In DeepSpeed, Adam is AdamW unless adam_w_mode is false. */
function optimizerType({ value, other }: KeyInput): Translation {
  const type = String(value).toLowerCase();
  const isDecoupled = other('adam_w_mode') === undefined || yesOf(other('adam_w_mode'));
  const kinds: Readonly<Record<string, string>> = {
    adam: isDecoupled ? 'adamW' : 'adam',
    adamw: 'adamW',
    lion: 'lion',
    sgd: 'sgd',
  };
  const kind = kinds[type];
  if (kind === undefined)
    return {
      effect: 'refused',
      why: `there is no optimizer ${String(value)} here; choose optimizer.kind adamW, adam, lion or sgd`,
    };
  const why =
    type === 'adam' && isDecoupled
      ? "DeepSpeed's Adam has decoupled weight decay unless adam_w_mode is false"
      : '';
  return {
    sets: { 'optimizer.kind': kind },
    // DeepSpeed's own Adam has no weight decay by default; torch's AdamW has 0.01.
    usual: { 'optimizer.weightDecay': type === 'adamw' && isOn(other('torch_adam')) ? 0.01 : 0 },
    why,
  };
}

export const OPTIMIZER: KeyTable = {
  type: decides('optimizer.kind', optimizerType),
  params: section({
    ...settingKeys('torch', {
      'optimizer.lr': number,
      'optimizer.betas': (value) => {
        if (Array.isArray(value) && value.length === 2) return value.map(numberOf);
        throw wrongValue(value, 'two numbers');
      },
      'optimizer.eps': number,
      'optimizer.weightDecay': number,
      'optimizer.amsgrad': yes,
      'optimizer.momentum': number,
      'optimizer.nesterov': yes,
    }),
    bias_correction: none('moments are corrected for bias here in any case'),
    adam_w_mode: none('decides whether type Adam is adamW (the default) or adam'),
    torch_adam: none('the update has one implementation here'),
    fp32_optimizer_states: none('optimizer states are float32 here'),
    foreach: none('the update has one implementation here'),
    fused: none('the update is one pass here in any case'),
    freeze_step: refused('1-bit optimizers are not built; parallel.commHook compresses gradients'),
    max_grad_norm: warned('DeepSpeed does not read it in this section; write gradient_clipping'),
    ...allNone(
      'is for 1-bit optimizers and LAMB, which are not built here',
      'cuda_aware comm_backend_name var_freeze_step var_update_scaler local_step_scaler local_step_clipper max_coeff min_coeff coeff_beta factor_max factor_min factor_threshold',
    ),
  }),
  legacy_fusion: none('the update has one implementation here'),
};

const SCHEDULES = { warmuplr: 'constant', warmupdecaylr: 'linear', warmupcosinelr: 'cosine' } as const;

function scheduleType({ value, other }: KeyInput): Translation {
  const type = String(value).toLowerCase();
  if (!Object.hasOwn(SCHEDULES, type))
    return {
      effect: 'refused',
      why: `there is no schedule ${String(value)} here; schedule.kind has constant, linear, cosine and wsd; for LRRangeTest, set run.lr between steps`,
    };
  const isLog = String(other('warmup_type') ?? 'log') === 'log';
  return {
    sets: { 'schedule.kind': word(SCHEDULES)(value) },
    ...(other('warmup_num_steps') === undefined && { usual: { 'schedule.warmupSteps': 1000 } }),
    ...(isLog && {
      effect: 'warning',
      why: `schedule.kind: ${word(SCHEDULES)(value)}, but the rate rises linearly here; DeepSpeed's rate rises by a logarithm unless warmup_type is linear`,
    }),
  };
}

export const SCHEDULER: KeyTable = {
  type: decides('schedule.kind', scheduleType),
  params: section({
    ...settingKeys('deepSpeed', {
      'schedule.warmupSteps': wholeFromZero,
      'schedule.maxSteps': whole,
      'optimizer.lr': { warmup_max_lr: number },
    }),
    warmup_type: none('the rate rises linearly here'),
    warmup_min_lr: refused('the rate rises from 0 here'),
    warmup_min_ratio: refused('the rate rises from 0 here'),
    cos_min_ratio: decides('schedule.etaMin', ({ value, other }) => {
      const lr = other('lr') ?? other('warmup_max_lr');
      if (lr === undefined || lr === 'auto')
        return {
          effect: 'warning',
          why: 'is a share of the learning rate, and this file has no learning rate; write schedule.etaMin',
        };
      return { sets: { 'schedule.etaMin': numberOf(lr) * numberOf(value) } };
    }),
    ...Object.fromEntries(
      [
        'lr_range_test_min_lr',
        'lr_range_test_step_rate',
        'lr_range_test_step_size',
        'lr_range_test_staircase',
        'cycle_first_step_size',
        'cycle_first_stair_count',
        'cycle_second_step_size',
        'cycle_second_stair_count',
        'decay_step_size',
        'cycle_min_lr',
        'cycle_max_lr',
        'decay_lr_rate',
        'cycle_momentum',
        'cycle_min_mom',
        'cycle_max_mom',
        'decay_mom_rate',
      ].map((key) => [
        key,
        refused('is for the schedules LRRangeTest and OneCycle, which a config here cannot have'),
      ]),
    ),
    last_batch_iteration: none('run.load continues a schedule'),
  }),
};

const precision = (paramDtype: string): KeyTable => ({
  enabled: decides('mixedPrecision.paramDtype', ({ value }) =>
    yesOf(value) ? { sets: { 'mixedPrecision.paramDtype': paramDtype } } : { effect: 'none', why: 'is off' },
  ),
});

const MASTER = 'master parameters and optimizer states are float32 here';

export const BF16: KeyTable = {
  ...precision('bfloat16'),
  immediate_grad_update: none('gradients are added up as they arrive here'),
  check_grad_overflow: none('a step with bfloat16 is not skipped here'),
  bf16_master_weights_and_grads: refused(MASTER),
  bf16_optimizer_states: refused(MASTER),
};

/** Whether a switch is known to be on ('auto' is not). */
function isOn(value: unknown): boolean {
  return value !== undefined && value !== 'auto' && yesOf(value);
}

export const FP16: KeyTable = {
  ...precision('float16'),
  auto_cast: none('inputs are rounded here in any case'),
  loss_scale: decides('gradScaler', ({ value }) =>
    numberOf(value) === 0
      ? { effect: 'used', why: 'the scale changes by itself, which is the default here' }
      : {
          effect: 'warning',
          sets: { 'gradScaler.initScale': numberOf(value) },
          why: `gradScaler.initScale: ${numberOf(value)}; here the scale also changes by itself`,
        },
  ),
  initial_scale_power: decides('gradScaler.initScale', ({ value, other }) =>
    isOn(other('fp16.enabled')) && isNothing(other('fp16.loss_scale') ?? 0)
      ? { sets: { 'gradScaler.initScale': 2 ** wholeOf(value, 0) } }
      : { effect: 'none', why: 'is for float16 with a scale that changes' },
  ),
  loss_scale_window: decides('gradScaler.growthInterval', ({ value, other }) =>
    isOn(other('fp16.enabled'))
      ? { sets: { 'gradScaler.growthInterval': wholeOf(value) } }
      : { effect: 'none', why: 'is for float16' },
  ),
  hysteresis: none('the scale shrinks after each step that overflows here'),
  consecutive_hysteresis: none('the scale shrinks after each step that overflows here'),
  min_loss_scale: none('the scale has no lower bound here'),
  fp16_master_weights_and_grads: refused(MASTER),
};
