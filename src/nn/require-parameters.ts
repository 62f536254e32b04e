import { type OptionKind, requireKind } from '../config';
import { ConfigError, isPlain } from '../core';
import * as tf from '../core/tf';
import { asModule, isLayer } from './layers-model';
import { Module } from './module';
import { Parameter } from './parameter';

export const aModule: OptionKind = {
  words: 'a module, such as new nn.Linear(7, 13)',
  accepts: (value) => value instanceof Module,
};

/** Returns a module after a check; `caller` is the call that got it. Throws: CONFIG for another value. */
export function requireModule<M extends Module>(caller: string, model: M): M {
  requireKind(caller, 'the model', model, aModule);
  return model;
}

/**
 * Converts a value to a module, as `asModule` does, and checks that the module has parameters. `caller` is the caller's name,
 * such as 'DDP'. Throws: CONFIG for a module without parameters, and for a module with unregistered modules.
 */
export function withParameters(value: unknown, caller: string): Module {
  const module = asModule(value, caller);
  requireSeen(module, caller);
  if (module.parameters().length > 0) return module;
  throw new ConfigError(
    `${caller}: ${named(module)} has no parameters. A module knows the parameters of modules in its fields ` +
      '(fc = new nn.Linear(7, 13)) and in nn.ModuleList, nn.ModuleDict and nn.Sequential; it does not see parameters in ' +
      'private #fields and in variables',
  );
}

/** Throws: CONFIG if modules or parameters are in a field's array, set, map or object; the error names the field. */
function requireSeen(model: Module, caller: string): void {
  const seen = new Set<unknown>([...model.modules(), ...model.parameters(), ...model.buffers()]);
  for (const module of model.modules()) {
    for (const [field, value] of Object.entries(module)) {
      const foreign = foreignTo(value);
      if (foreign !== null) throw new ConfigError(`${caller}: ${named(module)}.${field} ${foreign}`);
      const unseen = partsOf(value)
        .filter(isPart)
        .find((part) => !seen.has(part));
      if (unseen === undefined) continue;
      throw new ConfigError(
        `${caller}: ${named(module)}.${field} holds a ${unseen.constructor.name} in a plain ${value.constructor.name}, where its ` +
          'parameters are not seen and would not train; write new nn.ModuleList([…]), or, for names, new nn.ModuleDict({ … })',
      );
    }
  }
}

/** Returns what is wrong with a tfjs variable or layer in a module's field; null if nothing is wrong. */
function foreignTo(value: unknown): string | null {
  if (value instanceof tf.Variable && value.trainable) {
    return 'is a tf.Variable, which no optimizer sees here; write new nn.Parameter(tensor), or tf.tensor for a constant';
  }
  if (!isLayer(value) || !value.trainable || value.weights.length === 0) return null;
  return (
    `is a layer of tfjs (${value.name}), whose weights a module does not see; store the layer in a private #field or a ` +
    'variable, and give the layer, too, to the strategy, the optimizer and clipGradNorm; or set its trainable to false'
  );
}

/** Returns the contents of an array, a set, a map or an object without a class. */
function partsOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value) || value instanceof Set || value instanceof Map) return [...value.values()];
  return isPlain(value) ? Object.values(value) : [];
}

function isPart(value: unknown): value is Module | Parameter {
  return value instanceof Module || value instanceof Parameter;
}

function named(module: Module): string {
  return module.path === '' ? module.constructor.name : `"${module.path}" (${module.constructor.name})`;
}
