import { ACCELERATE_FSDP } from '../accelerate/accelerate-fsdp';
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
import { yes } from '../rows/values';
import { isCalled } from './calls';
import { call, madeBy, member, offload, ordered, policy, WHOLE_NAMES, wrapOf } from './pytorch-fsdp';

/** The arguments of Accelerate's FSDP plugin, each with the key of Accelerate's file. */
const PLUGIN: Readonly<Record<string, string>> = {
  fsdp_version: 'fsdp_version',
  sharding_strategy: 'fsdp_sharding_strategy',
  reshard_after_forward: 'fsdp_reshard_after_forward',
  backward_prefetch: 'fsdp_backward_prefetch',
  auto_wrap_policy: 'fsdp_auto_wrap_policy',
  transformer_cls_names_to_wrap: 'fsdp_transformer_layer_cls_to_wrap',
  min_num_params: 'fsdp_min_num_params',
  sync_module_states: 'fsdp_sync_module_states',
  forward_prefetch: 'fsdp_forward_prefetch',
  activation_checkpointing: 'fsdp_activation_checkpointing',
  activation_checkpointing_offload: 'fsdp_activation_checkpointing_offload',
  cpu_ram_efficient_loading: 'fsdp_cpu_ram_efficient_loading',
  state_dict_type: 'fsdp_state_dict_type',
  use_orig_params: 'fsdp_use_orig_params',
};

/** Returns the row that Accelerate's file has for an argument of the plugin. */
function ofPlugin(name: string): KeyRow {
  const key = PLUGIN[name] ?? name;
  const row = ACCELERATE_FSDP.fsdp[key] ?? none('');
  return {
    ...row,
    mean: (input) =>
      row.mean({
        ...input,
        key,
        value: plain(input.value),
        other: (wanted) => {
          const own = Object.entries(PLUGIN).find(([, theirs]) => theirs === wanted)?.[0];
          return plain(input.other(own ?? wanted));
        },
      }),
  };
}

/** Returns the word of an enumeration's member: Accelerate's file has BACKWARD_PRE for BackwardPrefetch.BACKWARD_PRE. */
function plain(value: unknown): unknown {
  return typeof value === 'string' && /^[\w.]+$/.test(value) ? member(value) : value;
}

function pluginWrap(input: KeyInput): Translation {
  return isCalled(input.value) || /_policy$/.test(String(input.value))
    ? wrapOf(input)
    : ofPlugin('auto_wrap_policy').mean(input);
}

/** Calls in a script that make Accelerate's settings of FSDP. Source: accelerate/utils/dataclasses.py of Accelerate 1.15.0. */
export const PLUGINS: KeyTable = {
  FullyShardedDataParallelPlugin: call(
    (input) => {
      const isNamed = ['sharding_strategy', 'reshard_after_forward'].some((name) =>
        madeBy(input).names.includes(name),
      );
      return isNamed
        ? { effect: 'used', why: 'the model is wrapped' }
        : { sets: { 'parallel.strategy': 'FULL_SHARD' } };
    },
    ordered(
      {
        ...Object.fromEntries(Object.keys(PLUGIN).map((name) => [name, ofPlugin(name)])),
        auto_wrap_policy: decides('parallel.wrap', pluginWrap),
        cpu_offload: offload,
        mixed_precision_policy: policy('MixedPrecision'),
        limit_all_gathers: setting('parallel.limitAllGathers', yes),
        ignored_modules: refused(WHOLE_NAMES),
        param_init_fn: none('models are built chunk by chunk here'),
        ...allNone(
          'checkpoints here are sharded, and any number of ranks reads them',
          'state_dict_config optim_state_dict_config',
        ),
      },
      'fsdp_version sharding_strategy reshard_after_forward backward_prefetch mixed_precision_policy auto_wrap_policy cpu_offload ignored_modules state_dict_type state_dict_config optim_state_dict_config limit_all_gathers use_orig_params param_init_fn sync_module_states forward_prefetch activation_checkpointing activation_checkpointing_offload cpu_ram_efficient_loading transformer_cls_names_to_wrap min_num_params',
    ),
  ),
};
