import { strategyWith } from '../../config';
import {
  allNone,
  decides,
  isNothing,
  type KeyInput,
  type KeyTable,
  none,
  refused,
  settingKeys,
  type Translation,
  wrongValue,
} from '../rows/key-row';
import { strategyOf, wholeOf, yes, yesOf } from '../rows/values';

// Keys for FSDP 1 and 2 of Accelerate, and keys for the sizes of its device mesh.

/** Whether the keys belong to Accelerate itself, not to a program that calls Accelerate. */
function isAccelerate(other: KeyInput['other']): boolean {
  return other('distributed_type') !== undefined || other('use_fsdp') !== undefined;
}

/** Returns FSDP's strategy from all keys that decide it. Source: Accelerate's FullyShardedDataParallelPlugin. */
function strategy({ key, other }: KeyInput): Translation {
  const isVersion2 = String(other('fsdp_version') ?? 1) === '2';
  const reshard = other('fsdp_reshard_after_forward');
  const named = other('fsdp_sharding_strategy');
  if (!isVersion2 && key === 'fsdp_reshard_after_forward' && isAccelerate(other))
    return {
      effect: 'warning',
      why: `Accelerate reads it only with fsdp_version 2; with version 1, fsdp_sharding_strategy decides (${String(named ?? 'FULL_SHARD, the default')})`,
    };
  // With FSDP 1, either key can have the name of a strategy.
  const given = isVersion2 ? reshard : (named ?? reshard);
  const isName = typeof given === 'number' || (typeof given === 'string' && !/^(true|false)$/i.test(given));
  if (isVersion2 && isName) throw wrongValue(given, 'true or false with fsdp_version 2');
  const plain =
    given === undefined
      ? 'FULL_SHARD'
      : isName
        ? strategyOf(given)
        : yesOf(given)
          ? 'FULL_SHARD'
          : 'SHARD_GRAD_OP';
  const replicas = Number(other('parallelism_config_dp_replicate_size') ?? 1);
  return {
    sets: { 'parallel.strategy': replicas > 1 ? strategyWith(plain, { isHybrid: true }) : plain },
  };
}

export const UNWRAPPED =
  'without fsdp_auto_wrap_policy, Accelerate makes the whole model one unit; write fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP';

/** Whether Accelerate's FSDP has no policy that chooses units. */
export function isUnwrapped(other: KeyInput['other']): boolean {
  return isAccelerate(other) && other('fsdp_auto_wrap_policy') === undefined;
}

/** Returns which modules are units, from the policy and the keys that the policy reads. */
function wrap({ key, value, other }: KeyInput): Translation {
  if (isUnwrapped(other) && !key.endsWith('auto_wrap_policy'))
    return { effect: 'warning', why: `has no effect: ${UNWRAPPED}` };
  const policy = String(
    key.endsWith('auto_wrap_policy') ? value : (other('fsdp_auto_wrap_policy') ?? 'TRANSFORMER_BASED_WRAP'),
  );
  switch (policy.toUpperCase()) {
    case 'NO_WRAP':
      return { sets: { 'parallel.wrap': 'root' } };
    case 'SIZE_BASED_WRAP':
      return key.endsWith('layer_cls_to_wrap')
        ? { effect: 'none', why: 'the policy chooses modules by their size' }
        : { sets: { 'parallel.wrap': { minNumParams: wholeOf(other('fsdp_min_num_params') ?? 1e8) } } };
    case 'TRANSFORMER_BASED_WRAP': {
      if (key.endsWith('min_num_params')) return { effect: 'none', why: 'is for the policy SIZE_BASED_WRAP' };
      const isLinear = String(other('fsdp_transformer_layer_cls_to_wrap')) === 'Linear';
      const units = isLinear ? 'linear' : 'blocks';
      return { sets: { 'parallel.wrap': units }, why: isLinear ? '' : 'every block is a unit' };
    }
    default:
      throw wrongValue(policy, 'TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or NO_WRAP');
  }
}

function backwardPrefetch({ value }: KeyInput): Translation {
  const name = String(value).toUpperCase();
  if (name === 'BACKWARD_PRE' || name === 'BACKWARD_POST')
    return { sets: { 'parallel.backwardPrefetch': name } };
  if (name === 'NO_PREFETCH' || isNothing(value)) return { sets: { 'parallel.backwardPrefetch': null } };
  throw wrongValue(value, 'BACKWARD_PRE, BACKWARD_POST or NO_PREFETCH');
}

/** Returns a mesh of replicas, if there are several. */
function mesh({ other }: KeyInput): Translation {
  const dpReplicate = wholeOf(other('parallelism_config_dp_replicate_size') ?? 1);
  const dpShard = wholeOf(other('parallelism_config_dp_shard_size') ?? 1);
  if (dpReplicate === 1)
    return { effect: 'none', why: 'without replicas, all data-parallel ranks share the shards' };
  // FSDP also shards over the ranks of context parallelism.
  const cp = wholeOf(other('parallelism_config_cp_size') ?? 1);
  return dpShard * cp === 1
    ? { sets: { 'parallel.strategy': 'NO_SHARD' } }
    : { sets: { 'parallel.mesh': { dpReplicate, dpShard: dpShard * cp } } };
}

function contextParallel(usual: 'ring' | 'ulysses') {
  return ({ value, other }: KeyInput): Translation => {
    const cp = wholeOf(value);
    const kind = other('parallelism_config_cp_backend') === 'deepspeed' ? 'ulysses' : usual;
    return cp === 1
      ? { effect: 'none', why: 'sequences are not divided' }
      : { sets: { 'parallel.cp': cp, 'parallel.cpKind': kind } };
  };
}

const ONE_KIND = 'chooses the implementation of attention in the other program';

export const ACCELERATE_FSDP: { readonly fsdp: KeyTable; readonly parallelism: KeyTable } = {
  fsdp: {
    ...settingKeys('accelerate', {
      'parallel.strategy': {
        fsdp_sharding_strategy: decides('parallel.strategy', strategy),
        fsdp_reshard_after_forward: decides('parallel.strategy', strategy),
      },
      'parallel.wrap': {
        fsdp_auto_wrap_policy: decides('parallel.wrap', wrap),
        fsdp_transformer_layer_cls_to_wrap: decides('parallel.wrap', wrap),
        fsdp_min_num_params: decides('parallel.wrap', wrap),
      },
      'parallel.syncModuleStates': yes,
      'parallel.forwardPrefetch': yes,
      'parallel.backwardPrefetch': {
        fsdp_backward_prefetch: decides('parallel.backwardPrefetch', backwardPrefetch),
      },
      'offload.parameters': { fsdp_offload_params: yes },
      'offload.activations': { fsdp_activation_checkpointing_offload: yes },
      activationCheckpointing: { fsdp_activation_checkpointing: (value) => (yesOf(value) ? 'full' : null) },
    }),
    fsdp_version: none(
      'units shard the rows of parameters here, as FSDP 2 does; FSDP 1 also shards padding, so its numbers of bytes differ',
    ),
    fsdp_state_dict_type: none('checkpoints here are sharded, and any number of ranks reads them'),
    fsdp_use_orig_params: none('parameters have their own shapes and names here in any case'),
    fsdp_cpu_ram_efficient_loading: none('each rank reads only its own chunks here'),
    fsdp_ignored_modules: refused(
      'is a regular expression; write the names of modules as parallel.ignoredModules',
    ),
  },
  parallelism: {
    ...settingKeys('accelerate', {
      'parallel.mesh': {
        parallelism_config_dp_replicate_size: decides('parallel.mesh', mesh),
        parallelism_config_dp_shard_size: decides('parallel.mesh', mesh),
      },
      'parallel.tp': { parallelism_config_tp_size: (value) => wholeOf(value) },
      'parallel.cp': {
        parallelism_config_cp_size: decides('parallel.cp', contextParallel('ring')),
        parallelism_config_sp_size: decides('parallel.cp', contextParallel('ulysses')),
      },
    }),
    parallelism_config_cp_backend: none(ONE_KIND),
    parallelism_config_cp_comm_strategy: none('a ring here sends keys and values to the next rank'),
    // In older versions, cp could also mean DeepSpeed's Ulysses.
    ...allNone(
      ONE_KIND,
      'parallelism_config_cp_attn_implementation parallelism_config_cp_seq_length parallelism_config_cp_seq_length_is_variable',
    ),
    parallelism_config_sp_backend: none(ONE_KIND),
    parallelism_config_sp_seq_length: none("sequences have the length of the model's seq here"),
    parallelism_config_sp_seq_length_is_variable: none("sequences have the length of the model's seq here"),
    parallelism_config_sp_attn_implementation: none(ONE_KIND),
  },
};
