import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findInstallation } from '../../core';

/**
 * [Note: templates] train.py of a bundle is made of Python files in src/python/bundle_scripts, which run and are type-checked as they
 * are. An export gives the constants at their top the values of a config; it decides each `if` whose condition is one of its flags; it
 * writes the text of some names in their place, and the expression of a function that only returns one in place of its calls; and it leaves
 * out imports, constants and functions that nothing uses any more.
 */
export interface Filling {
  /** The docstring of the script. */
  readonly title: string;
  /** The conditions that the export decides, such as IS_TIED. */
  readonly flags: Readonly<Record<string, boolean>>;
  /** Values of constants, as Python writes them. */
  readonly constants: Readonly<Record<string, string | number>>;
  /** Expressions that take the place of names or of '**OPTIONS'. */
  readonly inlined: Readonly<Record<string, string>>;
}

/** Returns a script that is made of some of the files, which are named without '.py'. Throws: errors of the file system. */
export function scriptFrom(files: readonly string[], filling: Filling): string {
  const all = files.flatMap((name) => partsOf(readTemplate(name), filling));
  const returned = Object.fromEntries(all.flatMap(({ text }) => returnedBy(text)));
  const parts = all.flatMap((part) =>
    returnedBy(part.text).length > 0
      ? []
      : [{ ...part, text: withInlined(withInlined(part.text, returned), filling.inlined) }],
  );
  const code = used(parts.filter(({ kind }) => kind !== 'import'));
  const text = (kind: Part['kind'], between: string): string =>
    code
      .filter((part) => part.kind === kind)
      .map((part) => part.text)
      .join(between);
  const imports = parts.flatMap(({ kind, text: line }) => (kind === 'import' ? [line] : []));
  const [standard, others] = importsOf(imports, code.map((part) => part.text).join('\n'));
  return `"""${filling.title}"""\n\n${standard}\n\n${others}\n\n${text('constants', '\n')}\n\n\n${text('block', '\n\n\n')}\n`;
}

/** A part of a Python file: an import, a line of constants, or a function, a class or the statement that starts the script. */
interface Part {
  readonly kind: 'import' | 'constants' | 'block';
  /** The names that the part defines; a part without names is always used. */
  readonly names: readonly string[];
  readonly text: string;
}

/** The text of each template that was read. */
const TEXTS = new Map<string, string>();

function readTemplate(name: string): string {
  const text =
    TEXTS.get(name) ??
    readFileSync(join(findInstallation(), 'src', 'python', 'bundle_scripts', `${name}.py`), 'utf8');
  TEXTS.set(name, text);
  return text;
}

function partsOf(template: string, { flags, constants, inlined }: Filling): Part[] {
  const isDecided = (name: string): boolean => Object.hasOwn(flags, name) || hasInlined(name, inlined);
  return template
    .split(/\n{2,}(?=\S)|\n(?=import |from |[A-Z_]+(?:, [A-Z_]+)*(?:: .*)? = )/)
    .flatMap((part): Part[] => {
      const text = part.trimEnd();
      if (/^(import|from) /.test(text))
        return text.startsWith('from .') ? [] : [{ kind: 'import', names: [], text }];
      const [, line = ''] = /^([A-Z_]+(?:, [A-Z_]+)*)(?:: .*)? = /.exec(text) ?? [];
      const names = line === '' ? [] : line.split(', ');
      if (names.some(isDecided)) return [];
      if (names.length > 0) return [{ kind: 'constants', names, text: withValues(text, names, constants) }];
      const [, name] = /^(?:def|class) (\w+)/.exec(text) ?? [];
      if (name === undefined && !text.startsWith('if ')) return [];
      const lines = decided(text.split('\n'), flags).join('\n');
      return [{ kind: 'block', names: name === undefined ? [] : [name], text: lines }];
    });
}

/** Returns the call of a function that only returns an expression, with this expression; else nothing. */
function returnedBy(block: string): readonly (readonly [call: string, expression: string])[] {
  const [, call, expression] =
    /^def (\w+\([\w, ]*\))(?: -> \w+)?:(?: {2}#.*)?\n {4}return (.*)$/.exec(block) ?? [];
  return call === undefined || expression === undefined ? [] : [[call, expression]];
}

function hasInlined(name: string, inlined: Filling['inlined']): boolean {
  return Object.hasOwn(inlined, name) || Object.hasOwn(inlined, `**${name}`);
}

/** Gives the constants of a line their values; a comment stays. */
function withValues(text: string, names: readonly string[], constants: Filling['constants']): string {
  if (!names.every((name) => Object.hasOwn(constants, name))) return text;
  const [, comment = ''] = /( {2}# .*)$/.exec(text) ?? [];
  return `${names.join(', ')} = ${names.map((name) => constants[name]).join(', ')}${comment}`;
}

/** Writes expressions in the place of names. An empty text for '**OPTIONS' also removes the comma before it. */
function withInlined(code: string, inlined: Filling['inlined']): string {
  return Object.entries(inlined).reduce((text, [name, value]) => {
    if (!text.includes(name)) return text;
    const words = name.replaceAll(/[*()]/g, '\\$&');
    const place = new RegExp(`${value === '' ? '(?:, )?' : ''}(?<!\\w)${words}(?!\\w)`, 'g');
    return text.replaceAll(place, () => value);
  }, code);
}

/** Keeps the branches that the flags choose, without their `if`, `elif` and `else`. */
function decided(lines: readonly string[], flags: Filling['flags']): string[] {
  const kept: string[] = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] ?? '';
    const [, indent = '', not, flag = ''] = /^( *)if (not )?([A-Z_0-9]+):$/.exec(line) ?? [];
    if (!Object.hasOwn(flags, flag)) {
      kept.push(line);
      at++;
      continue;
    }
    let [isOpen, isBlankAfter] = [true, false];
    let isChosen = flags[flag] === (not === undefined);
    do {
      const end = lines.findIndex((one, i) => i > at && one !== '' && !one.startsWith(`${indent} `));
      const body = lines.slice(at + 1, end < 0 ? lines.length : end);
      if (isChosen) kept.push(...decided(body, flags).map((one) => one.replace(/^ {4}/, '')));
      isBlankAfter = !isChosen && body.at(-1) === '';
      isOpen &&= !isChosen;
      at = end < 0 ? lines.length : end;
      const [, next] = new RegExp(`^${indent}(?:elif ([A-Z_0-9]+)|else):$`).exec(lines[at] ?? '') ?? [];
      isChosen = isOpen && (next === undefined || flags[next] === true);
    } while (new RegExp(`^${indent}(elif [A-Z_0-9]+|else):$`).test(lines[at] ?? ''));
    if (isBlankAfter) kept.push(''); // the blank line after the statement
  }
  return kept;
}

/** Leaves out parts whose names no used part has. */
function used(parts: readonly Part[]): Part[] {
  const found = new Set(parts.filter(({ names }) => names.length === 0));
  for (let size = 0; size < found.size; ) {
    size = found.size;
    const words = wordsOf([...found].map(({ text }) => text).join('\n'));
    for (const part of parts) if (part.names.some((name) => words.has(name))) found.add(part);
  }
  return parts.filter((part) => found.has(part));
}

/** Returns the imports of names that the code has: those of Python itself, and the others, sorted as isort does by default. */
function importsOf(imports: readonly string[], code: string): readonly [string, string] {
  const words = wordsOf(code);
  const kept = imports.flatMap((line) => {
    const [, start = '', list = ''] = /^(from .* import |import )(.*)$/.exec(line) ?? [];
    const names = list
      .split(', ')
      .filter((name) => words.has(name.split(' as ').at(-1)?.split('.')[0] ?? ''));
    return names.length === 0 ? [] : [`${start}${names.join(', ')}`];
  });
  const module = (text: string): string => text.split(' ')[1] ?? '';
  const sorted = [...new Set(kept)].sort(
    (a, b) => Number(a.startsWith('from')) - Number(b.startsWith('from')) || (module(a) < module(b) ? -1 : 1),
  );
  const isStandard = (text: string): boolean => ['math', 'os', 're', 'typing'].includes(module(text));
  return [sorted.filter(isStandard).join('\n'), sorted.filter((text) => !isStandard(text)).join('\n')];
}

/** Returns the names that code reads: also those in braces of its texts, but no attributes. */
function wordsOf(code: string): ReadonlySet<string> {
  const plain = code
    .replaceAll(/#.*/g, '')
    .replaceAll(/"[^"\n]*"/g, (text) => (text.match(/\{[^}]*\}/g) ?? []).join(' '));
  return new Set(plain.match(/(?<![\w.])[A-Za-z_]\w*/g) ?? []);
}
