import { strategyWith } from '../../config';
import {
  type Convert,
  decides,
  isNothing,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  refused,
  setting,
  settingKeys,
  type Translation,
  wrongValue,
} from '../rows/key-row';
import { strategyOf, wholeOf, yes, yesOf } from '../rows/values';
import { isCalled } from './calls';
import { axesOf, meshMeaning } from './meshes';

// Arguments of FSDP 1, of fully_shard and of DDP. Source: torch.distributed.fsdp and torch.nn.parallel of PyTorch 2.13.

/** The value of the line that stands for the call itself. */
export interface CallMade {
  /** Names of the arguments that the call has, whether or not their values are known. */
  readonly names: readonly string[];
  /** Which modules become units. The loop around this call, or around another call, decides this. */
  readonly wrap: 'blocks' | 'linear' | 'root';
  /** The line of the call that wraps blocks, if this call wraps the root or another module. */
  readonly blocksLine: number | null;
  /** The modules and their strategy, if calls have different strategies; `modules` is null for the whole model. */
  readonly apart: { readonly modules: string | null; readonly strategy: string } | null;
}

const DEVICE = 'ranks run on CPUs here; a plan is for GPUs';
const GROUP = 'a job has one group of all ranks here; parallel.mesh divides it';
export const WHOLE_NAMES = 'write the names of modules as parallel.ignoredModules';

/** Returns the units that a policy of FSDP 1 makes. */
export function wrapOf({ value }: KeyInput): Translation {
  if (isNothing(value)) return { sets: { 'parallel.wrap': 'root' } };
  const name = isCalled(value) ? value.call : String(value).split('.').at(-1);
  switch (name) {
    case 'transformer_auto_wrap_policy':
    case 'ModuleWrapPolicy': {
      const classes = isCalled(value) ? [Object.values(value.given)[0]].flat() : [];
      const isLinear = classes.length === 1 && /(^|\.)Linear$/.test(String(classes[0]));
      return {
        sets: { 'parallel.wrap': isLinear ? 'linear' : 'blocks' },
        why: isLinear ? '' : 'every block is a unit',
      };
    }
    case 'size_based_auto_wrap_policy': {
      const least = isCalled(value) ? value.given.min_num_params : undefined;
      return {
        sets: { 'parallel.wrap': { minNumParams: typeof least === 'number' ? wholeOf(least) : 1e8 } },
      };
    }
    default:
      return {
        effect: 'warning',
        why: `which modules ${String(name)} chooses is not known here; write parallel.wrap`,
      };
  }
}

/** Whether a value, which is a truth value or an object for offloading, puts shards on the host. */
function isOffloaded(value: unknown): boolean {
  if (!isCalled(value)) return yesOf(value);
  if (value.call === 'CPUOffload') return yesOf(value.given.offload_params ?? false);
  return value.call === 'CPUOffloadPolicy';
}

export const offload = setting('offload.parameters', (value) =>
  isNothing(value) ? undefined : isOffloaded(value),
);

/** Returns the row of an argument whose value is a policy of dtypes; the policy has lines of its own. */
export const policy = (kind: string): KeyRow =>
  decides('mixedPrecision', ({ value }) => {
    if (isNothing(value)) return { effect: 'none', why: 'is off' };
    if (!isCalled(value)) throw wrongValue(value, `${kind}(param_dtype=…)`);
    return { effect: 'used', why: `dtypes are those of ${value.call}, which has lines of its own` };
  });

/** Returns the last part of the name of an enumeration's member: 'BACKWARD_PRE'. */
export const member = (value: unknown): string => String(value).split('.').at(-1) ?? '';

const prefetch: Convert = (value) => {
  if (isNothing(value)) return null;
  const name = member(value);
  if (name === 'BACKWARD_PRE' || name === 'BACKWARD_POST') return name;
  throw wrongValue(value, 'BackwardPrefetch.BACKWARD_PRE, BackwardPrefetch.BACKWARD_POST or None');
};

export const madeBy = ({ value }: KeyInput): CallMade => value as CallMade; // read-python.ts makes this value

function besideBlocks(line: number): Translation {
  return { effect: 'used', why: `is a unit too; the call for blocks on line ${line} decides the strategy` };
}

/** Returns the strategy of fully_shard, by all arguments that decide it. */
function fullyShard({ other }: KeyInput): Translation {
  const reshard = other('reshard_after_forward');
  const isNumber = typeof reshard === 'number';
  return {
    sets: {
      'parallel.strategy': strategyWith('FULL_SHARD', {
        isHybrid: (axesOf(other('mesh'))?.length ?? 1) > 1,
        reshardAfterForward: reshard === undefined || reshard === null || isNumber || yesOf(reshard),
      }),
      ...(isNumber && { 'parallel.reshardAfterForward': wholeOf(reshard) }),
    },
  };
}

const FULLY_SHARD: KeyTable = settingKeys('fullyShard', {
  'parallel.mesh': { mesh: decides('parallel.mesh', meshMeaning) },
  'parallel.reshardAfterForward': {
    reshard_after_forward: decides('parallel.reshardAfterForward', fullyShard),
  },
  mixedPrecision: { mp_policy: policy('MixedPrecisionPolicy') },
  'offload.parameters': { offload_policy: offload },
});

const FSDP: KeyTable = settingKeys('fsdp', {
  'parallel.strategy': { sharding_strategy: (value) => (isNothing(value) ? undefined : strategyOf(value)) },
  'offload.parameters': { cpu_offload: offload },
  'parallel.wrap': { auto_wrap_policy: decides('parallel.wrap', wrapOf) },
  'parallel.backwardPrefetch': { backward_prefetch: prefetch },
  mixedPrecision: { mixed_precision: policy('MixedPrecision') },
  'parallel.ignoredModules': { ignored_modules: refused(WHOLE_NAMES) },
  'parallel.syncModuleStates': { sync_module_states: yes },
  'parallel.forwardPrefetch': { forward_prefetch: yes },
  'parallel.limitAllGathers': { limit_all_gathers: yes },
  'parallel.mesh': { device_mesh: decides('parallel.mesh', meshMeaning) },
});

/** Returns rows in the order of a signature. */
export function ordered(rows: KeyTable, names: string): KeyTable {
  return Object.fromEntries(
    names.split(' ').flatMap((name) => (rows[name] === undefined ? [] : [[name, rows[name]]])),
  );
}

/** Returns the row of a call; its arguments are in the order of the function's signature. */
export function call(mean: KeyRow['mean'], parts: KeyTable, says = 'parallel.strategy'): KeyRow {
  return { ...decides(says, mean), parts };
}

/** The calls that make a model data-parallel. */
export const WRAPPERS: KeyTable = {
  FullyShardedDataParallel: call(
    (input) => {
      const { names, wrap, blocksLine, apart } = madeBy(input);
      if (apart?.modules === null) return { sets: { 'parallel.strategy': apart.strategy } };
      if (blocksLine !== null) return besideBlocks(blocksLine);
      if (apart !== null)
        return {
          sets: { 'parallel.unitStrategies': [apart] },
          usual: { 'parallel.forwardPrefetch': false, 'parallel.wrap': wrap },
        };
      return {
        ...(names.includes('sharding_strategy')
          ? { effect: 'used', why: 'the model is wrapped' }
          : { sets: { 'parallel.strategy': 'FULL_SHARD' } }),
        usual: {
          'parallel.forwardPrefetch': false,
          ...(!names.includes('auto_wrap_policy') && { 'parallel.wrap': wrap }),
        },
      };
    },
    ordered(
      {
        ...FSDP,
        process_group: none(GROUP),
        param_init_fn: none('models are built chunk by chunk here'),
        device_id: none(DEVICE),
        use_orig_params: none('parameters have their own shapes and names here in any case'),
        ignored_states: refused(WHOLE_NAMES),
      },
      'process_group sharding_strategy cpu_offload auto_wrap_policy backward_prefetch mixed_precision ignored_modules param_init_fn device_id sync_module_states forward_prefetch limit_all_gathers use_orig_params ignored_states device_mesh',
    ),
  ),
  fully_shard: call(
    (input) => {
      const { wrap, blocksLine } = madeBy(input);
      if (blocksLine !== null) return besideBlocks(blocksLine);
      return { ...fullyShard(input), usual: { 'parallel.wrap': wrap } };
    },
    ordered(
      {
        ...FULLY_SHARD,
        shard_placement_fn: refused('parameters are sharded by rows here'),
        ignored_params: refused(WHOLE_NAMES),
        dp_mesh_dims: refused('write parallel.mesh; parallel.tp divides matrices'),
      },
      'mesh reshard_after_forward shard_placement_fn mp_policy offload_policy ignored_params dp_mesh_dims',
    ),
  ),
  DistributedDataParallel: call(() => ({ sets: { 'parallel.strategy': 'NO_SHARD' } }), {
    device_ids: none(DEVICE),
    output_device: none(DEVICE),
    dim: none('each rank reads its own batches here'),
    broadcast_buffers: none('buffers have the values of rank 0 here in any case'),
    init_sync: none('every rank makes the same initial values'),
    process_group: none(GROUP),
    ...settingKeys('torch', {
      'parallel.bucketBytes': {
        bucket_cap_mb: (value) => (isNothing(value) ? undefined : Math.round(Number(value) * 2 ** 20)),
      },
    }),
    find_unused_parameters: none('parameters without a gradient are found here in any case'),
    check_reduction: none('every collective is compared between ranks here in any case'),
    gradient_as_bucket_view: none('gradients are parts of buckets here in any case'),
    static_graph: none('graphs are recorded in each step here'),
    delay_all_reduce_named_params: refused('gradients are reduced in buckets here'),
    param_to_hook_all_reduce: refused('gradients are reduced in buckets here'),
    mixed_precision: policy('_MixedPrecision'),
    device_mesh: none(GROUP),
    skip_all_reduce_unused_params: refused('gradients of all parameters are reduced here'),
    bucket_cap_mb_list: refused('all buckets have the size bucket_cap_mb here'),
    batched_grad_copy: none('gradients are parts of buckets here in any case'),
    forward_sync_buffers: none('buffers have the values of rank 0 here in any case'),
  }),
};
