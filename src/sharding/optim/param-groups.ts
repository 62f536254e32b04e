import { ConfigError, classOf } from '../../core';
import { groupParameters, type Module, Parameter, stateBuffers } from '../../nn';
import type { HasStates } from './optimizer';
import { checkedOptions } from './optimizer-options';
import type { GroupSettings, ParamGroup } from './update-rule';

/** The forms in which a cell gives a group's parameters: a module, or parameters with or without names. */
export type GivenParameters =
  | Module
  | Parameter
  | Iterable<Parameter | readonly [name: string, parameter: Parameter]>;

/** A group in torch's form: `{ params: model.fc.parameters(), lr: 1e-4 }`. */
export interface GivenGroup extends GroupSettings {
  readonly params: GivenParameters;
}

/** A group that names its modules and parameters: `{ modules: 'LayerNorm', parameters: 'bias', weightDecay: 0 }`. */
export interface NamedGroup extends GroupSettings {
  readonly modules?: string | readonly string[] | undefined;
  readonly parameters?: string | readonly string[] | undefined;
}

/** Parameters with their own settings; null: all parameters that are in no other group. */
export interface ParameterGroup {
  readonly parameters: readonly Parameter[] | null;
  readonly own: GroupSettings;
}

/**
 * Returns the groups that a config names, after the group of all other parameters. A parameter belongs to the first group
 * that names it. Throws: CONFIG for a name without a match, and for a group without names.
 */
export function namedGroups(model: Module, groups: readonly NamedGroup[]): ParameterGroup[] {
  const taken = new Set<Parameter>();
  const named = groups.map(({ modules = [], parameters = [], ...own }, i) => {
    const where = `optimizer.groups.${i}`;
    const members = groupParameters(
      model,
      { modules: [modules].flat(), parameters: [parameters].flat() },
      where,
    );
    const free = members.filter((parameter) => !taken.has(parameter));
    for (const parameter of free) taken.add(parameter);
    return { parameters: free, own };
  });
  return [{ parameters: null, own: {} }, ...named];
}

/**
 * Returns groups that were given in torch's form, and a `model` with the state buffers of the groups' parameters. Throws:
 * CONFIG for groups for which torch.optim raises ValueError.
 */
export function givenGroups(
  groups: readonly GivenGroup[],
  caller: string,
): { readonly model: HasStates; readonly groups: ParameterGroup[] } {
  if (groups.length === 0)
    throw new ConfigError(`${caller} got an empty list; give the model, or model.parameters()`);
  const taken = new Set<Parameter>();
  const made = groups.map((group, i): ParameterGroup => {
    if (typeof group !== 'object' || group === null || group.params === undefined) {
      throw new ConfigError(
        `${caller}: group ${i} is ${classOf(group)} without params; write { params: model.parameters(), lr: 0.001 }`,
      );
    }
    const { params, ...own } = group;
    const parameters = parametersIn(params, `${caller}: params of group ${i}`);
    const twice = parameters.find((parameter) => taken.has(parameter));
    if (twice !== undefined)
      throw new ConfigError(`${caller}: ${twice.name} is in more than one group; keep it in one group`);
    for (const parameter of parameters) taken.add(parameter);
    return { parameters, own };
  });
  return { model: { states: () => stateBuffers(taken) }, groups: made };
}

/** Whether a value is a list of parameters, such as model.parameters(), and not a list of groups. */
export function isParameters(value: readonly unknown[]): value is readonly Parameter[] {
  return value.length > 0 && value.every((each) => each instanceof Parameter);
}

function parametersIn(source: GivenParameters, subject: string): Parameter[] {
  if (source instanceof Parameter) return [source];
  if ('parameters' in source && typeof source.parameters === 'function') return source.parameters();
  const items = Symbol.iterator in source ? [...source].flat() : [];
  const parameters = items.filter((each) => each instanceof Parameter);
  if (parameters.length > 0) return [...new Set(parameters)];
  throw new ConfigError(
    `${subject} are ${classOf(source)} without parameters; give model.parameters(), parameters of model.namedParameters(), or a module`,
  );
}

/**
 * Returns a group; a setting that the group lacks comes from the optimizer. Throws: CONFIG for a setting that the optimizer
 * lacks, or that must be the same in all groups, because states depend on it.
 */
export function paramGroup(own: GroupSettings, lr: number, settings: GroupSettings): ParamGroup {
  type Whole = GroupSettings & { readonly lr: number };
  const { lr: rate, ...others } = checkedOptions<Whole>('a parameter group', own, { ...settings, lr });
  if (settings.momentum === 0 && others.momentum !== 0) {
    throw new ConfigError(
      'a parameter group has a momentum, but the optimizer has none; give the optimizer a momentum, and momentum: 0 to other groups',
    );
  }
  return { lr: rate, settings: others };
}
