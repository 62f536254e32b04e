import { ownValue } from '../own-value';
import codes from './codes.json';
import { filled, type MessagePattern, messagePattern, valuesOf } from './message-pattern';
import { TABLES } from './tables';

/*
 * [Note: Chinese messages] The English text of an error is written once, where the error is thrown, and is the text of
 * `error.message`, of JSON and of what processes send to each other. Whoever shows an error to a person asks this file for a line in
 * Chinese, to be shown before the English text. The line is a translation of the message's first sentence: the tables have the
 * sentences with numbered holes ('tp ({0}) must divide …'), the message's values are put into the translation, and a value that
 * is itself a phrase of the tables is translated too. `test/core/chinese` reads the sentences from the code and requires a
 * translation of each.
 */

/** The rank or the ranks that report an error, before its message. */
const RANKS = /^\[rank(?:s? [\d, and-]+ of \d+| \d+(?:\/\d+)?)\] /;
/** The place in the cells that a failed call adds behind its message. */
const PLACE = / \((?:cell \d+|[\w.]+(?:\(\)[\w.]*)?)(?:, line \d+)?\)$/;
/** The name of a setting, a function or a file, before what is wrong with it. */
const SUBJECT = /^(.{1,200}?): (.+)$/;
/** The beginning of an error of JavaScript that a rank's code threw. */
const FOREIGN = /^\w*Error: /;
const CHINESE = /\p{Script=Han}/u;

const MOST_DEPTH = 6;
/** Longer lines are lists. */
const MOST_LINE = 2000;

/** The patterns, made for the first error that is shown in Chinese: most processes show none. */
const made: { patterns?: readonly MessagePattern[] } = {};

/**
 * Returns the first sentence of an error's message in Chinese, or the lines of a list of what is wrong with a config. If the
 * message is not known, returns what the error's code means. `name` is the code, or a name with the code, as
 * 'ShardlabError[CONFIG]'; undefined if the name has no code.
 */
export function inChinese(message: string, name: string): string | undefined {
  const [ranks = ''] = RANKS.exec(message) ?? [];
  const [place = ''] = (ranks === '' ? null : PLACE.exec(message)) ?? [];
  const lines: string[] = [];
  for (const line of message.slice(ranks.length, message.length - place.length).split('\n')) {
    const isSentence = line.length <= MOST_LINE && !FOREIGN.test(line);
    const translated = isSentence ? translation(line, false, 0) : undefined;
    if (translated === undefined) break;
    lines.push(translated.text);
  }
  const meaning = lines.length > 0 ? lines.join('\n') : meaningOf(name);
  return meaning === undefined ? undefined : `${ranks}${meaning}${place}`;
}

/** Returns the patterns of all tables; those with the most characters are first. */
function allPatterns(): readonly MessagePattern[] {
  made.patterns ??= TABLES.flatMap((table) => Object.entries(table))
    .flatMap(([english, chinese]) => patternsOf(english, chinese))
    .filter(({ texts }) => /\p{L}/u.test(texts.join('')))
    .sort((a, b) => b.size - a.size);
  return made.patterns;
}

/** Returns the pattern of an entry; for the end of a sentence also the pattern without the punctuation in front of it. */
function patternsOf(english: string, chinese: string): MessagePattern[] {
  const pattern = messagePattern(english, chinese);
  const isEnd = english.startsWith('; ') && chinese.startsWith('；');
  return isEnd
    ? [pattern, messagePattern(english.slice('; '.length), chinese.slice('；'.length))]
    : [pattern];
}

function meaningOf(name: string): string | undefined {
  const [code = ''] = /[A-Z_]+(?=\]?$)/.exec(name) ?? [];
  return ownValue<string>(codes, code);
}

/** A line in Chinese, and the number of characters of the pattern that describes it. */
interface Translation {
  readonly text: string;
  readonly size: number;
}

/** Translates a line, or what follows the subject of the line, by the pattern that describes most of it. */
function translation(line: string, whole: boolean, depth: number): Translation | undefined {
  const direct = byPattern(line, whole, depth);
  const [, subject, rest] = (depth < MOST_DEPTH ? SUBJECT.exec(line) : null) ?? [];
  if (subject === undefined || rest === undefined) return direct;
  const predicate = translation(rest, whole, depth + 1);
  if (predicate === undefined || (direct !== undefined && direct.size > predicate.size)) return direct;
  return { text: `${subject}：${predicate.text}`, size: predicate.size };
}

function byPattern(line: string, whole: boolean, depth: number): Translation | undefined {
  for (const pattern of allPatterns()) {
    const values = valuesOf(pattern, line, whole);
    if (values === undefined) continue;
    const shown = values.map((value, i) => unitOf(values[i - 1], value) ?? phrase(value, depth + 1));
    const text = filled(pattern.chinese, shown);
    if (CHINESE.test(text)) return { text, size: pattern.size };
  }
  return undefined;
}

/** Units that messages have in holes, each after the hole of its number. */
const UNITS: Readonly<Record<string, string>> = {
  values: '个值',
  characters: '个字符',
  tokens: '个 token',
  rows: '行',
  pairs: '对',
  examples: '个样本',
  words: '个词',
  settings: '项设置',
  launches: '条启动命令',
  'here-documents': '个 here-document',
  step: '步',
  steps: '步',
};

/** Returns a unit after a number in Chinese; undefined for other values. */
function unitOf(before: string | undefined, value: string): string | undefined {
  return before !== undefined && /^\d+$/.test(before) ? ownValue(UNITS, value) : undefined;
}

/** Returns a value in Chinese if it is a phrase of the tables, a number with a unit, or a name with an article, and otherwise the value. */
function phrase(value: string, depth: number): string {
  if (depth > MOST_DEPTH || value.length > MOST_LINE || !/\p{Ll} ?\P{Lu}/u.test(value)) return value;
  const whole = translation(value, true, depth)?.text;
  if (whole !== undefined && !hasEnglish(whole)) return whole;
  const [head = '', ...advice] = value.split(/(?=; )/);
  if (advice.length === 0 || head === '') return whole ?? simplePhrase(value);
  // What is behind '; ' says what to do. In English it would be half a sentence, and the English message has it.
  const translated = advice.flatMap((part) => translation(part, true, depth)?.text ?? []);
  return phrase(head, depth) + translated.filter((text) => !hasEnglish(text)).join('');
}

const NUMBER_AND_UNIT = /^(\d[\d,]*) (\w+)$/;
const ARTICLE_AND_NAME = /^an? (\p{Lu}\w*)$/u;

function simplePhrase(value: string): string {
  const [, number, unit = ''] = NUMBER_AND_UNIT.exec(value) ?? [];
  const chinese = ownValue(UNITS, unit);
  if (number !== undefined && chinese !== undefined) return `${number} ${chinese}`;
  const [, name] = ARTICLE_AND_NAME.exec(value) ?? [];
  return name === undefined ? value.replaceAll("' or '", "' 或 '") : `一个 ${name}`;
}

/** Texts in quotes, braces, brackets and parentheses, which are code and values. */
const CODE = /`[^`]*`|'[^']*'|"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\([^()]*\)/g;

/** Whether a text has at least three English words in a row outside of code. */
export function hasEnglish(text: string): boolean {
  return /\b[a-z]{2,}(?:,? [a-z]{2,}){2,}\b/.test(text.replaceAll(CODE, '·'));
}
