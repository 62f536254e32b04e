import { ConfigError, type Warn } from '../core';
import { camelCase, requireKnownOptions, requireNamed } from './option-names';
import { parseValues, type ShapeOf } from './parse-options';
import type { Original } from './setting';
import { SETTING_ROWS } from './setting-table';
import type { SETTINGS } from './settings/training';

type Camel<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name;

type NamesOf<Row, By extends Original> = Row extends { readonly names: { readonly [Key in By]: infer Names } }
  ? Camel<Names extends readonly string[] ? Names[number] : Names extends string ? Names : never>
  : never;

type NamesIn<Rows, By extends Original> = {
  [Key in keyof Rows]:
    | NamesOf<Rows[Key], By>
    | (Rows[Key] extends { readonly parts: infer Parts } ? NamesIn<Parts, By> : never);
}[keyof Rows];

/** The arguments of a call that are settings, under the names in their rows. */
export type SettingArgument<By extends Original> = NamesIn<typeof SETTINGS, By>;

/**
 * How a call treats an argument that is not a setting. `true` accepts it; `noEffect` says why it has no effect;
 * `refused` says what to write instead.
 */
type OwnArgument = true | { readonly noEffect: string } | { readonly refused: string };

/** A call and its arguments. `own` must have every option that is not a setting; otherwise, TypeScript reports an error. */
export interface Call<By extends Original, Options> {
  /** How the call is written: 'FSDP(model, { … })'. */
  readonly what: string;
  readonly by: By;
  readonly own: Readonly<Record<Exclude<keyof Options & string, SettingArgument<By>>, OwnArgument>> &
    Readonly<Record<string, OwnArgument>>;
  /** The schema of each argument's value. */
  readonly values: ShapeOf<Options>;
}

/**
 * Checks the names and values of a call's arguments; warns about arguments without effect.
 * Throws: CONFIG for an unknown name, with the nearest name, camelCase for snake_case, or what to write instead; and for a wrong
 * value, with what is allowed.
 */
export function checkArguments<By extends Original, Options extends object>(
  { what, by, own, values }: Call<By, Options>,
  options: Options,
  warn: Warn,
): void {
  requireNamed(what, options, () => Object.keys(own));
  const taken = SETTING_ROWS.flatMap(({ names = {} }) => names[by] ?? []).map(camelCase);
  for (const name of Object.keys(options)) {
    const argument: OwnArgument | undefined = own[camelCase(name)];
    if (typeof argument === 'object' && 'refused' in argument)
      throw new ConfigError(`${what} has no argument ${name}; ${argument.refused}`);
  }
  const others = Object.entries<OwnArgument>(own).filter(
    ([, argument]) => argument === true || 'noEffect' in argument,
  );
  requireKnownOptions(what, options, [...taken, ...others.map(([name]) => name)]);
  parseValues(what, options, values);
  for (const [name, argument] of others) {
    if (argument === true || !('noEffect' in argument) || !Object.hasOwn(options, name)) continue;
    warn(`${what.replace(/\(.*/, '')}: ${name} has no effect: ${argument.noEffect}`);
  }
}
