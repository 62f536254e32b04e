import { nearest } from '../config';
import { ConfigError, shown } from '../core';
import type { Module } from './module';
import type { Parameter } from './parameter';

/** Whether a full name matches a pattern in which '*' stands for one part of the name, such as 'blocks.*.fc1'. */
export function fitsPattern(name: string, pattern: string): boolean {
  return fitsParts(name, pattern.split('.'));
}

function fitsParts(name: string, wanted: readonly string[]): boolean {
  const parts = name.split('.');
  return parts.length === wanted.length && wanted.every((part, i) => part === '*' || part === parts[i]);
}

/**
 * Returns the modules of a model whose names match a pattern; '' is the model itself. `setting` is only for the message.
 * Throws: CONFIG if no name matches; the error names the most similar module.
 */
export function modulesMatching(model: Module, pattern: string, setting: string): Module[] {
  return modulesByPattern(model, setting)(pattern);
}

/** Returns a function that does the same as `modulesMatching` for many patterns; the model must not change meanwhile. */
export function modulesByPattern(model: Module, setting: string): (pattern: string) => Module[] {
  const own = namesOf(model);
  return (pattern) => {
    const modules = fitting(own, pattern);
    if (modules.length > 0) return modules;
    const { whole } = model;
    // A stage of a pipeline has only some of the model's names.
    if (whole !== model && fitting(namesOf(whole), pattern).length > 0) return [];
    throw unmatched(pattern, setting, own.names);
  };
}

/**
 * Returns the parameters whose own names match a pattern; if there are none, all parameters of the modules that match.
 * Throws: CONFIG for a pattern without a match.
 */
export function parametersMatching(model: Module, pattern: string, setting: string): Parameter[] {
  const named = [...model.namedParameters()];
  const direct = named.filter(([name]) => fitsPattern(name, pattern)).map(([, parameter]) => parameter);
  if (direct.length > 0) return direct;
  const own = namesOf(model);
  const within = fitting(own, pattern).flatMap((module) => module.parameters());
  if (within.length > 0) return [...new Set(within)];
  throw unmatched(pattern, setting, [...own.names, ...named.map(([name]) => name)]);
}

/**
 * Returns the modules for which a pattern fits the whole name or the end of the name ('fc1' fits 'blocks.0.fc1'). Throws:
 * CONFIG if no name fits.
 */
export function modulesEndingWith(model: Module, pattern: string, setting: string): Module[] {
  const { modules, names } = namesOf(model);
  const matches = modules.filter((_, i) => fitsEnd(names[i] ?? '', pattern));
  if (matches.length > 0) return matches;
  throw unmatched(
    pattern,
    setting,
    names.flatMap((name) => [name, lastPart(name)]).filter((name) => !/^\d+$/.test(name)),
  );
}

/**
 * Returns the parameters that fit one of the names, and the parameters of modules that fit one of the names. A name fits the
 * whole name of a module or parameter, or its end ('bias' fits 'blocks.0.fc1.bias'). A class ('LayerNorm') fits its modules.
 * Throws: CONFIG for a name without a match, and if there are no names.
 */
export function groupParameters(
  model: Module,
  names: { readonly modules: readonly string[]; readonly parameters: readonly string[] },
  setting: string,
): Parameter[] {
  if (names.modules.length + names.parameters.length === 0) {
    throw new ConfigError(
      `${setting}: give modules or parameters, for example { parameters: 'bias', weightDecay: 0 }`,
    );
  }
  const own = namesOf(model);
  const modules = own.names.map((name, i) => [name, own.modules[i]] as const);
  const parameters = [...model.namedParameters()];
  const within = names.modules.flatMap((wanted) => {
    const matches = modules.filter(
      ([name, module]) => fitsEnd(name, wanted) || module?.constructor.name === wanted,
    );
    if (matches.length === 0)
      throw unmatched(
        wanted,
        `${setting}.modules`,
        modules.flatMap(([name, module]) => [name, lastPart(name), module?.constructor.name ?? '']),
      );
    return matches.flatMap(([, module]) => module?.parameters() ?? []);
  });
  const direct = names.parameters.flatMap((wanted) => {
    const matches = parameters.filter(([name]) => fitsEnd(name, wanted));
    if (matches.length === 0)
      throw unmatched(
        wanted,
        `${setting}.parameters`,
        parameters.flatMap(([name]) => [name, lastPart(name)]),
      );
    return matches.map(([, parameter]) => parameter);
  });
  return [...new Set([...within, ...direct])];
}

function lastPart(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}

function fitsEnd(name: string, pattern: string): boolean {
  const end = name.split('.').slice(-pattern.split('.').length).join('.');
  return name !== '' && fitsPattern(end, pattern);
}

/**
 * Excludes parameters from training. Patterns are names of modules or parameters, with '*' for one part of the name.
 * Throws: CONFIG for a pattern without a match, if nothing would train, and after sharding.
 */
export function freeze(model: Module, patterns: readonly string[]): void {
  if (!Array.isArray(patterns) || patterns.some((pattern) => typeof pattern !== 'string'))
    throw new ConfigError(`freeze takes a list of names, such as ['blocks.0'], not ${shown(patterns)}`);
  for (const pattern of patterns) {
    for (const parameter of parametersMatching(model, pattern, 'frozen')) parameter.requiresGrad = false;
  }
  if (patterns.length > 0 && !model.parameters().some(({ requiresGrad }) => requiresGrad)) {
    throw new ConfigError(`frozen: ${patterns.join(', ')} leave nothing to train; freeze fewer modules`);
  }
}

/** Modules of a model, and their names within it. */
interface Named {
  readonly modules: readonly Module[];
  readonly names: readonly string[];
}

function namesOf(model: Module): Named {
  const modules = model.modules();
  const start = model.path === '' ? 0 : model.path.length + 1;
  return { modules, names: modules.map(({ path }) => path.slice(start)) };
}

function fitting({ modules, names }: Named, pattern: string): Module[] {
  const wanted = pattern.split('.');
  return modules.filter((_, i) => fitsParts(names[i] ?? '', wanted));
}

function unmatched(pattern: string, setting: string, names: readonly string[]): ConfigError {
  const known = [...new Set(names.filter((name) => name !== '').map(generalized))];
  const near =
    (pattern.includes('*') ? undefined : nearest(pattern, names)) ?? nearest(generalized(pattern), known);
  const hint = near === undefined ? `there are ${known.join(', ')}` : `did you mean "${near}"?`;
  return new ConfigError(`${setting}: no module of the model is named "${pattern}"; ${hint}`, {
    setting,
    pattern,
  });
}

/** Returns 'blocks.*.fc1' for 'blocks.3.fc1'. */
function generalized(name: string): string {
  return name.replaceAll(/(?<=\.|^)\d+(?=\.|$)/g, '*');
}
