import { z } from 'zod';
import { isRecord, nearest } from '../core';
import { callback, type OptionKind, path as pathKind, wrongOption } from './call-options';
import { requireKnownOptions } from './option-names';

/*
 * [Note: options of a call] A call that takes options has a shape: a zod schema per option, which says the option's type, range
 * and default. `parseOptions` checks the options and adds the defaults; its messages derive from the shape. An option may be left
 * out unless its schema is `nonoptional()`, so most options share one schema: zod takes 20 µs and more to make another one.
 * Calls within a training step, such as layers and collectives, use `requireOptions` of call-options.ts, which is faster.
 */

/** The schema of each option of a call. */
type Shape = Readonly<Record<string, z.ZodType>>;

/**
 * The shape of an interface's options, after `satisfies`: TypeScript reports an option without a schema, and a schema that
 * accepts values of another type.
 */
export type ShapeOf<Options> = {
  readonly [Key in keyof Options]-?: object extends Pick<Options, Key>
    ? z.ZodType<unknown, Options[Key] | undefined>
    : z.ZodNonOptional<z.ZodType<unknown, Options[Key]>>;
};

/** The options that a shape accepts. TypeScript reports an interface that has other options. */
type GivenOptions<S extends Shape> = { readonly [Key in keyof S]?: z.input<S[Key]> | undefined };

/** The names of options that have a value after the check: those with a default, and those that every call must give. */
type Present<S extends Shape> = {
  [Key in keyof S]: S[Key] extends z.ZodDefault | z.ZodNonOptional ? Key : never;
}[keyof S];

/** Options after the check, with defaults. */
export type Parsed<S extends Shape> = { readonly [Key in Present<S>]: z.output<S[Key]> } & {
  readonly [Key in Exclude<keyof S, Present<S>>]?: z.output<S[Key]>;
};

/**
 * Returns a call's options after a check, with defaults. `form` is how the call is written: 'run.parity(other, { … })'.
 * Throws: CONFIG for an unknown name, with the nearest name, and for a wrong value, with the call, the option, the value and
 * what is allowed.
 */
export function parseOptions<S extends Shape>(form: string, given: GivenOptions<S>, shape: S): Parsed<S> {
  requireKnownOptions(form, given, Object.keys(shape));
  return parseValues(form, given, shape) as Parsed<S>; // each value is its schema's output
}

/**
 * Returns the values of options whose names are checked elsewhere, with defaults. Throws: CONFIG for a wrong value, as
 * `parseOptions` does.
 */
export function parseValues(form: string, options: object, shape: Shape): Readonly<Record<string, unknown>> {
  const parsed: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries(shape)) {
    const value: unknown = Reflect.get(options, name);
    const hasValue = value !== undefined || schema instanceof z.ZodDefault;
    if (!hasValue && !(schema instanceof z.ZodNonOptional)) continue;
    const { data, path = [], isRight } = parsedValue(schema, value);
    if (isRight) {
      parsed[name] = data;
      continue;
    }
    const wrong = innermost({ name, schema, value }, path);
    throw wrongOption(callOf(form), wrong.name, wrong.value, allowedBy(wrong.schema, wrong.value));
  }
  return parsed;
}

/** Returns the name of a call: 'run.parity' for 'run.parity(other, { … })'. */
function callOf(form: string): string {
  return form.replace(/\s*[({].*/, '');
}

/** A checked value; `path` says which of its fields is wrong. */
interface CheckedValue {
  readonly isRight: boolean;
  readonly data?: unknown;
  readonly path?: readonly PropertyKey[] | undefined;
}

function parsedValue(schema: z.ZodType, value: unknown): CheckedValue {
  try {
    const { success, data, error } = schema.safeParse(value);
    return success ? { isRight: true, data } : { isRight: false, path: pathOf(error.issues[0]) };
  } catch {
    return { isRight: false }; // reading the value throws; zod also reads it to word its error
  }
}

/** Returns the path of an issue; for a value that has one of several forms, the path within the form whose keys it has. */
function pathOf(issue: z.core.$ZodIssue | undefined): readonly PropertyKey[] | undefined {
  if (issue?.code !== 'invalid_union') return issue?.path;
  const within = issue.errors.flatMap((errors) =>
    errors.some(({ code }) => code === 'unrecognized_keys')
      ? []
      : (errors.find(({ path }) => path.length > 0) ?? []),
  );
  return [...issue.path, ...(within[0]?.path ?? [])];
}

/** A value, its name and its schema. */
interface Named {
  readonly name: string;
  readonly schema: z.core.$ZodType;
  readonly value: unknown;
}

/** Returns the wrong field of an option that is an object: `metrics.error` for `metrics`; else the option. */
function innermost(option: Named, path: readonly PropertyKey[]): Named {
  const { name, schema, value } = option;
  const [key, ...rest] = path;
  if (typeof key !== 'string' || !isRecord(value)) return option;
  if (isWrapper(schema)) return innermost({ ...option, schema: schema.unwrap() }, path);
  const field = schema instanceof z.ZodRecord ? schema.valueType : fieldOf(schema, key);
  if (field === undefined) return option;
  return innermost({ name: `${name}.${key}`, schema: field, value: value[key] }, rest);
}

function fieldOf(schema: z.core.$ZodType, key: string): z.core.$ZodType | undefined {
  if (schema instanceof z.ZodObject) return schema.shape[key];
  if (!(schema instanceof z.ZodUnion)) return undefined;
  return schema.options.map((option) => fieldOf(option, key)).find((field) => field !== undefined);
}

/** A whole number. */
export const wholeSchema = z.int();

export const countSchema = z.int().min(1);

export const positiveSchema = z.number().positive();

export const atLeast0Schema = z.number().nonnegative();

export const flagSchema = z.boolean();

export const textSchema = z.string();

/** The path of a file or a folder. */
export const pathSchema = ofKind<string>(pathKind);

/** Returns the schema of a function; `T` is the function's type, which cannot be checked. */
export function functionSchema<T>() {
  return ofKind<T>(callback);
}

/** Returns the schema of a kind of values. */
export function ofKind<T>({ words, accepts }: OptionKind) {
  return z.custom<T>(accepts).describe(words);
}

/** Returns the schema of numbers above a bound; infinity is one of them, and means that there is no limit. */
export function limitAbove(bound: number) {
  const accepts = (value: unknown): boolean => typeof value === 'number' && value > bound;
  return ofKind<number>({ words: `a number above ${bound}`, accepts });
}

/** Returns the schema of values that other code checks. null is none of them, because an option without a value is left out. */
export function anyValue<T>() {
  return ofKind<T>({ words: 'a value, or left out', accepts: (value) => value !== null });
}

/** Says what a schema allows, after "must be"; for a misspelled name, also says which one is similar. */
function allowedBy(schema: z.core.$ZodType, value: unknown): string {
  const near = typeof value === 'string' ? nearest(value, namesOf(schema)) : undefined;
  return `${wordsOf(schema)}${near === undefined ? '' : `; did you mean '${near}'?`}`;
}

/** Returns the texts that a schema lists. */
function namesOf(schema: z.core.$ZodType): readonly string[] {
  if (schema instanceof z.ZodEnum) return schema.options.map(String);
  return isWrapper(schema) ? namesOf(schema.unwrap()) : [];
}

type Wrapper = z.ZodNonOptional | z.ZodDefault | z.ZodNullable | z.ZodReadonly;

/** Whether a schema only adds something to another schema, such as a default. */
function isWrapper(schema: z.core.$ZodType): schema is Wrapper {
  const kinds = [z.ZodNonOptional, z.ZodDefault, z.ZodNullable, z.ZodReadonly];
  return kinds.some((kind) => schema instanceof kind);
}

/** Returns a schema's description; without one, says which values the schema accepts. */
function wordsOf(schema: z.core.$ZodType): string {
  const described = z.globalRegistry.get(schema)?.description;
  if (described !== undefined) return described;
  if (isWrapper(schema)) {
    const inner = wordsOf(schema.unwrap());
    return schema instanceof z.ZodNullable ? `${inner}, or null` : inner;
  }
  if (schema instanceof z.ZodBoolean) return 'true or false';
  if (schema instanceof z.ZodString) return 'a text';
  if (schema instanceof z.ZodEnum) return alternatives(schema.options);
  if (schema instanceof z.ZodLiteral) return alternatives([...schema.values]);
  if (schema instanceof z.ZodArray) return `a list, each ${wordsOf(schema.element)}`;
  if (schema instanceof z.ZodObject) return `{ ${Object.keys(schema.shape).join(', ')} }`;
  if (schema instanceof z.ZodRecord) return 'an object such as { name: value }';
  if (schema instanceof z.ZodUnion) return schema.options.map(wordsOf).join(', or ');
  if (schema instanceof z.ZodNumber) return numberWords(schema);
  return 'a value of another type';
}

function alternatives(values: readonly unknown[]): string {
  return values.map((value) => (typeof value === 'string' ? `'${value}'` : String(value))).join(' or ');
}

function numberWords({ isInt, def }: z.ZodNumber): string {
  const bounds = (def.checks ?? []).flatMap((check) => {
    if (check instanceof z.core.$ZodCheckGreaterThan) {
      const { value, inclusive } = check._zod.def;
      return [`${inclusive ? 'of at least' : 'above'} ${value}`];
    }
    if (!(check instanceof z.core.$ZodCheckLessThan)) return [];
    const { value, inclusive } = check._zod.def;
    return [`${inclusive ? 'of at most' : 'below'} ${value}`];
  });
  if (bounds.length === 0) return isInt ? 'a whole number' : 'a finite number';
  return `a ${isInt ? 'whole ' : ''}number ${bounds.join(' and ')}`;
}
