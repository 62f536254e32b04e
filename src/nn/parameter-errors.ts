import { ConfigError, classOf, ShardlabError } from '../core';
import * as tf from '../core/tf';
import { leafOf } from '../engine';

/**
 * Throws: CONFIG for a value that is not a tensor, for a trainable tensor that is not float32, and for a tensor that belongs to
 * another parameter.
 */
export function requireOwnValues(tensor: { readonly shape: readonly number[] }, trains: boolean): void {
  if (!Array.isArray(tensor?.shape)) {
    throw new ConfigError(`nn.Parameter takes a tensor, such as tf.ones([13]), not ${classOf(tensor)}`);
  }
  if (!(tensor instanceof tf.Tensor)) return;
  if (trains && tensor.dtype !== 'float32') {
    throw new ConfigError(
      `nn.Parameter: ${tensor.dtype} [${tensor.shape}] has no gradient; give float32, for example tf.cast(tensor, 'float32'), or { requiresGrad: false }`,
    );
  }
  const holder = leafOf(tensor);
  if (holder !== undefined && !(tensor instanceof tf.Variable)) {
    throw new ConfigError(
      `nn.Parameter: this tensor [${tensor.shape}] belongs to ${holder.name === '' ? 'another parameter' : `parameter "${holder.name}"`}, ` +
        'which would get no gradient if two parameters had this tensor; to tie two fields, assign that parameter to both; ' +
        'else give a copy (tensor.clone())',
    );
  }
}

/** Makes the error for a parameter whose whole tensor is read but does not exist. */
export function noWholeTensor(parameter: {
  readonly name: string;
  readonly shape: readonly number[];
  readonly isAdopted: boolean;
}): ShardlabError {
  const { name, shape, isAdopted } = parameter;
  const why = isAdopted
    ? 'it is sharded. Call the module (its unit then gathers the parameter), or unshard() the unit first'
    : 'its values were disposed. Build the model again';
  return new ShardlabError(
    'SHAPE',
    `parameter ${name} ${JSON.stringify(shape)} has no whole tensor on this rank: ${why}`,
  );
}

/** Returns the error for an assignment to a parameter's tensor. */
export function noAssignment({ name }: Named): ConfigError {
  const key = name === '' ? 'name' : name;
  return new ConfigError(
    `${name === '' ? 'a parameter' : name}: the property tensor cannot be assigned. To set values, write model.loadStateDict({ '${key}': values }, { strict: ` +
      'false }), which works under every strategy',
  );
}

/** Returns the error for an unfrozen parameter whose unit has no gradient for it. */
export function frozenInUnit({ name }: Named): ConfigError {
  return new ConfigError(
    `${name}: requiresGrad is set to true, but the parameter was frozen when DDP was made, and DDP does not reduce gradients of such ` +
      'parameters (in torch they then drift apart between ranks); freeze parameters after DDP(model), or unfreeze them before it',
  );
}

interface Named {
  readonly name: string;
}

/** Returns the error for a change of requiresGrad after a strategy was applied. */
export function shardedAlready(
  parameter: { readonly name: string; readonly state: { readonly name: string } },
  value: boolean,
): ConfigError {
  const { name, state } = parameter;
  return new ConfigError(
    `${name}: requiresGrad is set to ${value}, but unit "${state.name}" already shards this parameter; ` +
      'freeze parameters before fullyShard, FSDP or DDP',
  );
}
