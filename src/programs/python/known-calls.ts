import {
  allNone,
  decides,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  refused,
  setting,
  type Translation,
} from '../rows/key-row';
import { floatOf, number, numberOf, whole, wholeFromZero, yes } from '../rows/values';
import { PLUGINS } from './accelerate-plugin';
import { MESHES } from './meshes';
import { OFFLOADS, PRECISIONS, ZERO } from './policies';
import { call, madeBy, WRAPPERS } from './pytorch-fsdp';
import { ACCELERATE_CALLS, ADAPTER_CALLS } from './trainer-calls';

/** Returns the table of the calls that are read in a script of Python. `trainers` are the calls of programs, whose place is among the others. */
export function knownCalls(trainers: KeyTable): KeyTable {
  return {
    ...WRAPPERS,
    ...ZERO,
    ...PRECISIONS,
    ...OFFLOADS,
    ...MESHES,
    ...PLUGINS,
    ...ACCELERATE_CALLS,
    ...trainers,
    ...ADAPTER_CALLS,
    ...TRAINING_CALLS,
  };
}

// Calls of a training loop: optimizers, schedules, clipping, autocast and recompute. Source: torch.optim, torch.nn.utils and torch.amp
// of PyTorch 2.13; transformers/optimization.py.

const GPU = 'how a GPU runs the update; the values are the same';
const COMMON: KeyTable = {
  params: none('all parameters that are not frozen train'),
  lr: setting('optimizer.lr', number),
  maximize: setting('optimizer.maximize', yes),
  ...allNone(GPU, 'foreach capturable differentiable fused decoupled_weight_decay'),
};

const ADAM: KeyTable = {
  ...COMMON,
  betas: setting('optimizer.betas', (value) => [value].flat().map(numberOf)),
  eps: setting('optimizer.eps', number),
  weight_decay: setting('optimizer.weightDecay', number),
  amsgrad: setting('optimizer.amsgrad', yes),
};

const SGD: KeyTable = {
  ...COMMON,
  momentum: setting('optimizer.momentum', number),
  weight_decay: setting('optimizer.weightDecay', number),
  nesterov: setting('optimizer.nesterov', yes),
  dampening: refused('momentum has no dampening here', (value) => value === 0),
};

/** Returns the row of an optimizer; a config's defaults are torch's. */
function optimizer(kind: string, parts: KeyTable): KeyRow {
  return call(() => ({ sets: { 'optimizer.kind': kind } }), parts, 'optimizer.kind');
}

/** Returns the row of a schedule of the learning rate. */
function schedule(kind: string, parts: KeyTable): KeyRow {
  const rows = {
    optimizer: none('the optimizer'),
    last_epoch: none('a resumed run continues its schedule'),
    ...parts,
  };
  return call(() => ({ sets: { 'schedule.kind': kind } }), rows, 'schedule.kind');
}

const WARMUP = setting('schedule.warmupSteps', wholeFromZero);
const END = setting('schedule.maxSteps', whole);

/** torch's function has the parameters first; FSDP's method has only the norm. */
function clip({ value }: KeyInput): Translation {
  return typeof value === 'number'
    ? { sets: { clipNorm: value } }
    : { effect: 'none', why: 'all parameters' };
}

const RECOMPUTED =
  'blocks are recomputed; which of them is decided by the code, so all are read: write activationCheckpointing: { everyNth: 4 } for each fourth';

const recomputed: KeyRow = call(
  () => ({ sets: { activationCheckpointing: 'full' }, effect: 'warning', why: RECOMPUTED }),
  allNone(
    'is part of the recompute',
    'module checkpoint_impl checkpoint_fn model checkpoint_wrapper_fn check_fn auto_wrap_policy preserve_rng_state',
  ),
  'activationCheckpointing',
);

/** Returns the row of a layer of Megatron-LM whose matrix is divided over the ranks of tensor parallelism. */
function dividedLayer(divided: string, args: string): KeyRow {
  return call(
    () => ({
      effect: 'warning',
      why: `divides the ${divided} of this layer over the ranks of tp, whose number is an argument of the launch; write parallel.tp, which divides all blocks`,
    }),
    allNone('is part of the layer', args),
    'parallel.tp',
  );
}

const OFF: Translation = { effect: 'none', why: 'is off: enabled is False' };
const ON: Translation = { effect: 'none', why: 'is on' };

/** Calls in a script's training loop. */
const TRAINING_CALLS: KeyTable = {
  AdamW: optimizer('adamW', ADAM),
  Adam: optimizer('adam', ADAM),
  SGD: optimizer('sgd', SGD),
  CosineAnnealingLR: schedule('cosine', { T_max: END, eta_min: setting('schedule.etaMin', number) }),
  StepLR: schedule('step', {
    step_size: setting('schedule.stepSize', whole),
    gamma: setting('schedule.gamma', number),
  }),
  ExponentialLR: schedule('exponential', { gamma: setting('schedule.gamma', number) }),
  get_cosine_schedule_with_warmup: schedule('cosine', {
    num_warmup_steps: WARMUP,
    num_training_steps: END,
    num_cycles: refused('the cosine has half a cycle here', (value) => value === 0.5),
  }),
  get_linear_schedule_with_warmup: schedule('linear', { num_warmup_steps: WARMUP, num_training_steps: END }),
  get_constant_schedule_with_warmup: schedule('constant', { num_warmup_steps: WARMUP }),
  clip_grad_norm_: call(
    () => ({ effect: 'used', why: 'gradients are clipped' }),
    {
      parameters: decides('clipNorm', clip),
      max_norm: setting('clipNorm', number),
      norm_type: refused('the norm is that of all elements (2) here', (value) => value === 2),
      ...allNone('how the norm is computed', 'error_if_nonfinite foreach'),
    },
    'clipNorm',
  ),
  autocast: call(
    (input) =>
      madeBy(input).names.includes('dtype')
        ? { effect: 'used', why: 'computes in the type of dtype' }
        : { sets: { 'mixedPrecision.paramDtype': 'float16', 'mixedPrecision.reduceDtype': 'float32' } },
    {
      device_type: none('ranks run on CPUs here; a plan is for GPUs'),
      dtype: decides('mixedPrecision.paramDtype', ({ value, other }) =>
        other('enabled') === false
          ? OFF
          : {
              sets: { 'mixedPrecision.paramDtype': floatOf(value), 'mixedPrecision.reduceDtype': 'float32' },
            },
      ),
      enabled: decides('mixedPrecision', ({ value }) =>
        value === false ? { sets: { mixedPrecision: null } } : ON,
      ),
      cache_enabled: none('how autocast keeps its copies'),
    },
    'mixedPrecision.paramDtype',
  ),
  GradScaler: call(
    () => ({ sets: { gradScaler: true } }),
    {
      device: none('ranks run on CPUs here; a plan is for GPUs'),
      ...allNone(
        'write gradScaler: { initScale, growthFactor, … }',
        'init_scale growth_factor backoff_factor growth_interval',
      ),
      enabled: decides('gradScaler', ({ value }) => (value === false ? { sets: { gradScaler: false } } : ON)),
    },
    'gradScaler',
  ),
  ColumnParallelLinear: dividedLayer(
    'outputs',
    'input_size output_size config init_method bias gather_output stride keep_master_weight_for_test skip_bias_add skip_weight_param_allocation embedding_activation_buffer grad_output_buffer is_expert tp_comm_buffer_name disable_grad_reduce tp_group',
  ),
  RowParallelLinear: dividedLayer(
    'inputs',
    'input_size output_size config init_method bias input_is_parallel skip_bias_add stride keep_master_weight_for_test is_expert tp_comm_buffer_name tp_group',
  ),
  checkpoint_wrapper: recomputed,
  apply_activation_checkpointing: recomputed,
};
