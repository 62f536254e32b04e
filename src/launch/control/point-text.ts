import { nearest } from '../../config';
import { COLLECTIVE_OPS, ConfigError, type PointName, type StepPoint } from '../../core';

/*
 * [Note: points as text] A person names points of a step as 'reduceScatter layer 3', 'forward blocks.3.attn step 2' or '#9': the
 * point's name, then in any order a module, 'step N', 'microbatch N' and '#N', the number of a collective in its group. 'layer 3'
 * is the module with index 3 in the model's first list of modules, with all modules within; 'root' is the unit of no module.
 */

/** Names of points; `unshard` is the all-gather of a unit's parameters. */
const POINT_WORDS = [
  ...COLLECTIVE_OPS,
  'unshard',
  'forward',
  'backward',
  'recompute',
  'reshard',
  'loss',
  'optimizer',
  'data',
] as const satisfies readonly (PointName | 'unshard')[];

type PointWord = (typeof POINT_WORDS)[number];

/** What a text says of a point; what it leaves out may be anything. [Note: points as text] */
export interface PointText {
  readonly name: PointWord | undefined;
  /** A module's full name, with all modules within; '' is the root. */
  readonly module: string | undefined;
  readonly layer: number | undefined;
  /** Counted from 1, as the run's steps. */
  readonly step: number | undefined;
  /** Counted from 0. */
  readonly microbatch: number | undefined;
  /** The number of a collective in its group, from 1. */
  readonly number: number | undefined;
}

const FORM =
  "Write the point's name, then, if you like, a module, a step, a microbatch or a collective's number: 'reduceScatter', " +
  "'forward blocks.3.attn', 'reduceScatter layer 3 step 2', 'optimizer step 5', 'allGather root', 'send microbatch 1', '#9'";

const COUNTED = ['layer', 'step', 'microbatch'] as const;

/** Reads the text of a point. Throws: CONFIG for an unknown name, a number that is missing, and a text that says nothing. */
export function parsePointText(text: string): PointText {
  const words = text.trim().split(/\s+/).filter(Boolean);
  const parts: { -readonly [Key in keyof PointText]?: PointText[Key] } = {};
  const set = <Key extends keyof PointText>(key: Key, value: PointText[Key]): void => {
    if (parts[key] !== undefined) throw pointError(text, `says ${key} twice`);
    parts[key] = value;
  };
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    const counted = COUNTED.find((name) => name === word);
    if (counted !== undefined) {
      const count = words[++at] ?? '';
      if (!/^\d+$/.test(count)) throw pointError(text, `needs a number after '${word}'`);
      set(counted, Number(count));
    } else if (/^#\d+$/.test(word)) set('number', Number(word.slice(1)));
    else if (at === 0 && isPointWord(word)) set('name', word);
    else if (word === 'root') set('module', '');
    else if (at > 0 && parts.module === undefined) set('module', word.replace(/,$/, ''));
    else throw unknownWord(text, word);
  }
  if (words.length === 0) throw pointError(text, 'says nothing');
  const { name, module, layer, step, microbatch, number } = parts;
  return { name, module, layer, step, microbatch, number };
}

/** Whether a point in this step (from 1) is one that a text names. */
export type PointMatcher = (point: StepPoint, step: number) => boolean;

/** Returns what finds the points that a text names. Throws: CONFIG as `parsePointText`. */
export function pointMatcher(text: string): PointMatcher {
  return matcherOf(parsePointText(text));
}

/** Returns what finds the points that a read text names. */
export function matcherOf(wanted: PointText): PointMatcher {
  return (point, step) =>
    isNamed(wanted.name, point) &&
    (wanted.step === undefined || wanted.step === step) &&
    (wanted.module === undefined || modulesOf(point).some((module) => isWithin(module, wanted.module))) &&
    (wanted.layer === undefined || modulesOf(point).some((module) => layerOf(module) === wanted.layer)) &&
    (wanted.microbatch === undefined || wanted.microbatch === microbatchOf(point)) &&
    (wanted.number === undefined || wanted.number === point.collective?.number);
}

/** Describes a point: 'reduceScatter of blocks.3 (#9)', 'forward of the root', 'backward of microbatch 1'. */
export function describePoint(point: StepPoint): string {
  const { name, module, collective } = point;
  const number = collective === undefined ? '' : ` (#${collective.number})`;
  const microbatch = microbatchOf(point);
  const isOfUnit = ['forward', 'backward', 'recompute', 'reshard'].includes(name) && microbatch === undefined;
  const of = module !== '' ? ` of ${module}` : isOfUnit ? ' of the root' : '';
  return `${name}${of}${microbatch === undefined ? '' : ` of microbatch ${microbatch}`}${number}`;
}

/** Writes a point so that `pointMatcher` finds it in every step: 'reduceScatter blocks.3'. */
export function pointText({ name, module }: StepPoint): string {
  const [first = ''] = module.split(', ');
  return first === '' ? name : `${name} ${first}`;
}

function isPointWord(word: string): word is PointWord {
  return POINT_WORDS.some((name) => name === word);
}

function isNamed(name: PointWord | undefined, point: StepPoint): boolean {
  if (name === 'unshard') return point.name === 'allGather' && point.collective?.cause === 'param';
  return name === undefined || name === point.name;
}

/** A unit of several modules has all their names. */
function modulesOf({ module }: StepPoint): readonly string[] {
  return module.split(', ');
}

function isWithin(module: string, outer: string | undefined): boolean {
  return module === outer || (outer !== '' && module.startsWith(`${outer}.`));
}

function layerOf(module: string): number | undefined {
  const index = module.split('.').find((part) => /^\d+$/.test(part));
  return index === undefined ? undefined : Number(index);
}

function microbatchOf({ pipeline, collective }: StepPoint): number | undefined {
  if (pipeline !== undefined) return pipeline.microbatch;
  const said = /\bmicrobatch (\d+)/.exec(collective?.detail ?? '');
  return said === null ? undefined : Number(said[1]);
}

function unknownWord(text: string, word: string): ConfigError {
  const meant = nearest(word, [...POINT_WORDS, ...COUNTED, 'root']);
  const advice = meant === undefined ? '' : ` (did you mean '${meant}'?)`;
  return pointError(text, `has the word '${word}', which names no point${advice}`);
}

function pointError(text: string, fault: string): ConfigError {
  return new ConfigError(
    `the point '${text}' ${fault}. ${FORM}. Names of points: ${POINT_WORDS.join(', ')}`,
    {
      point: text,
    },
  );
}
