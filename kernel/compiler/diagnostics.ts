import ts from 'typescript';
import {
  type CellError,
  type PythonPlace,
  pythonLine,
  pythonName,
  pythonSentence,
  torchHabits,
} from '../../src/cell';

/** The largest number of messages that are shown for one cell. */
const SHOWN = 10;

/** Code of "Did you forget to use 'await'?", which the checker adds to an error. */
const FORGOTTEN_AWAIT = 2773;
/** Code of "Expression expected.", which the parser reports after the question mark of `x?`. */
const EXPRESSION_EXPECTED = 1109;
/** Codes of "Cannot find name 'x'.": without and with the nearest name, for a namespace, and for a shorthand property. */
const UNKNOWN_NAMES: readonly number[] = [2304, 2552, 2503, 18004];

/** Codes of "Property 'x' does not exist on type 'T'.": without and with the nearest member. */
const UNKNOWN_MEMBERS: readonly number[] = [2339, 2551];

/** Codes of "Object literal may only specify known properties": without and with the nearest key. */
const UNKNOWN_KEYS: readonly number[] = [2353, 2561];

/** Code of "No overload matches this call." */
const NO_OVERLOAD = 2769;

/**
 * Codes of "Type 'A' is not assignable to type 'B'.": for a value, an argument, an argument of an overloaded function, and types without
 * a common property.
 */
const WRONG_TYPES: readonly number[] = [2322, 2345, NO_OVERLOAD, 2559];

/** Code of "This expression is not callable." */
const NOT_CALLABLE = 2349;
/** Codes of "Module 'x' has no exported member 'y'.": without and with the nearest name. */
const UNKNOWN_EXPORTS: readonly number[] = [2305, 2724];
/** A type that is written out in more characters than this says nothing. */
const LONGEST_TYPE = 80;

/**
 * Codes of an operator between values that it does not take: for `+` and comparisons, and for the left and the right side of
 * other operators.
 */
const WRONG_OPERANDS: readonly number[] = [2365, 2362, 2363];
/** The codes of errors of the parser are below this number. */
const PARSER_CODES = 2000;

/** Code of "Block-scoped variable 'x' used before its declaration." */
const USED_BEFORE_DECLARATION = 2448;
/** Code of "Cannot assign to 'x' because it is a constant." */
const ASSIGNED_CONSTANT = 2588;

/** A cell with errors. */
export interface FaultyCell {
  readonly source: string;
  /** The cell's name in stack traces, such as "In[3]". */
  readonly name: string;
  /** Returns advice about a name that the checker does not know. */
  readonly adviceFor: (unknownName: string) => string | undefined;
  /** Whether cells have the name, which the library or an earlier cell has declared. */
  readonly isKnown: (name: string) => boolean;
  /** Whether an earlier cell has declared the name. */
  readonly wasDeclared: (name: string) => boolean;
}

/** Describes the checker's messages as one error of the cell. Positions are positions in the cell's source. */
export function describeDiagnostics(diagnostics: readonly ts.Diagnostic[], cell: FaultyCell): CellError {
  const problems = diagnostics.map((diagnostic) => locate(diagnostic, cell));
  const first = problems[0];
  if (first === undefined) throw new Error('an error was described without a diagnostic');
  const python = pythonPlace(diagnostics, cell);
  const ename = python === undefined ? `TypeScriptError[TS${first.code}]` : 'PythonCell';
  const sentence = python && pythonSentence(python);
  const rest = problems.length > SHOWN ? [`… and ${problems.length - SHOWN} more`] : [];
  return {
    ename,
    evalue: sentence ?? first.message,
    traceback: [
      ...(sentence === undefined ? [] : [sentence]),
      ...problems.slice(0, SHOWN).flatMap((each) => underline(each, cell)),
      ...rest,
    ],
    line: first.line + 1,
    column: first.column + 1,
  };
}

/** Returns the first place that is Python: a line that does not parse, or an unknown name. */
function pythonPlace(
  diagnostics: readonly ts.Diagnostic[],
  { source, wasDeclared }: FaultyCell,
): PythonPlace | undefined {
  for (const { code, start = 0, length = 0 } of diagnostics) {
    const before = source.slice(0, start).split('\n');
    const name = source.slice(start, start + length);
    const advice = UNKNOWN_NAMES.includes(code) && !wasDeclared(name) ? pythonName(name) : undefined;
    const place =
      advice === undefined && code < PARSER_CODES
        ? pythonLineAt(source.split('\n'), before)
        : advice && { line: before.length, advice };
    if (place !== undefined && place !== '') return place;
  }
  return undefined;
}

/**
 * Returns the place of a line that is Python at a message of the parser. At the beginning of a line, the parser may have expected more of
 * the line before: `import torch` is the beginning of `import torch = require(…)`.
 */
function pythonLineAt(lines: readonly string[], before: readonly string[]): PythonPlace | undefined {
  const line = before.length;
  const place = pythonLine(lines[line - 1] ?? '', line);
  if (place !== undefined || before.at(-1)?.trim() !== '') return place;
  const last = lines.slice(0, line - 1).findLastIndex((text) => text.trim() !== '');
  return last < 0 ? undefined : pythonLine(lines[last] ?? '', last + 1);
}

/** Returns a message with its position; line and column count from 0. */
function locate(diagnostic: ts.Diagnostic, cell: FaultyCell) {
  const { code, messageText, start = 0, length = 1 } = diagnostic;
  const { source } = cell;
  const offset = Math.min(start, source.length);
  const before = source.slice(0, offset).split('\n');
  const whole =
    code === NO_OVERLOAD ? overloadText(messageText) : ts.flattenDiagnosticMessageText(messageText, '\n');
  const owner = ownerBefore(source, offset);
  const text = UNKNOWN_MEMBERS.includes(code) ? withOwner(whole, owner) : whole;
  const message = text.replace(/import\("[^"]*\/__cell[^"]*"\)\./g, '');
  return {
    code,
    message: [message, ...advice(diagnostic, cell)].join(' '),
    line: before.length - 1,
    column: before.at(-1)?.length ?? 0,
    length,
  };
}

/** Returns the text before the dot that comes before a member. */
function ownerBefore(source: string, start: number): string {
  return /([\w$]+)\s*[?!]?\.\s*$/.exec(source.slice(0, start))?.[1] ?? '';
}

/** Names a value in place of its type, if the type is an object that is written out in many characters. */
function withOwner(message: string, owner: string): string {
  return message.replace(/ on type '(\{.*\})'/s, (whole, type: string) =>
    type.length <= LONGEST_TYPE || owner === '' ? whole : ` on '${owner}'`,
  );
}

/** Says why no form of an overloaded function takes a call's arguments, one sentence per reason, without the forms' declarations. */
function overloadText(text: string | ts.DiagnosticMessageChain): string {
  if (typeof text === 'string') return text;
  const reasons = (text.next ?? []).flatMap(({ next = [], messageText }) =>
    next.length === 0 ? [messageText] : next.map((reason) => reason.messageText),
  );
  return ['No form of this function takes these arguments.', ...new Set(reasons)].join(' ');
}

function advice(
  { code, start = 0, length = 0, messageText, relatedInformation = [] }: ts.Diagnostic,
  cell: FaultyCell,
): string[] {
  const said = relatedInformation
    .filter((related) => related.code === FORGOTTEN_AWAIT)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
  if (code === EXPRESSION_EXPECTED && /^\s*\?*[\w$.]+\?+\s*;?\s*$/m.test(cell.source))
    return ['For help on a name, write x? alone in a cell, or alone below %%ranks.'];
  const name = cell.source.slice(start, start + length);
  const after = cell.source.slice(start + length);
  const message = ts.flattenDiagnosticMessageText(messageText, '\n');
  if (UNKNOWN_MEMBERS.includes(code))
    return [...said, sentence(adviceOnMember(cell.source, start, { name, message, after })) ?? []].flat();
  if (UNKNOWN_KEYS.includes(code))
    return [...said, sentence(torchHabits.adviceOnKey(name, message)) ?? []].flat();
  if (code === NOT_CALLABLE) return [...said, sentence(torchHabits.adviceOnCall(name, message)) ?? []].flat();
  if (UNKNOWN_EXPORTS.includes(code))
    return [...said, sentence(torchHabits.adviceOnImport(name, message)) ?? []].flat();
  if (WRONG_TYPES.includes(code)) return [...said, sentence(torchHabits.adviceOnType(message)) ?? []].flat();
  if (WRONG_OPERANDS.includes(code)) {
    const habit = torchHabits.adviceOnOperator(message, cell.source.slice(0, start), after);
    return [...said, sentence(habit) ?? []].flat();
  }
  if (code === USED_BEFORE_DECLARATION && cell.wasDeclared(name))
    return [
      `This cell declares ${name} again, so it does not see the ${name} of an earlier cell: use the earlier ${name} in a separate cell.`,
    ];
  if (code === ASSIGNED_CONSTANT && cell.wasDeclared(name))
    return [`A later cell may declare a name again: write const ${name} = ….`];
  if (!UNKNOWN_NAMES.includes(code)) return said;
  const habit = torchHabits.adviceOnName(name, cell.source.slice(0, start), after);
  return [...said, cell.adviceFor(name) ?? sentence(habit ?? camelCased(name, cell)) ?? []].flat();
}

function adviceOnMember(
  source: string,
  start: number,
  { name, message, after }: Readonly<Record<'name' | 'message' | 'after', string>>,
): string | undefined {
  return torchHabits.adviceOnMember({ name, message, owner: ownerBefore(source, start), after });
}

/** Advises the name in camel case, if cells have it: `fully_shard` is fullyShard here. */
function camelCased(name: string, cell: FaultyCell): string | undefined {
  const here = torchHabits.camelCase(name);
  if (here === name) return undefined;
  const elsewhere = cell.adviceFor(here);
  return cell.isKnown(here)
    ? `Write ${here}`
    : elsewhere && `It is ${here} here. ${elsewhere.replace(/\.$/, '')}`;
}

function sentence(advice: string | undefined): string | undefined {
  return advice === undefined || advice.endsWith('?') ? advice : `${advice}.`;
}

function underline(problem: ReturnType<typeof locate>, { source, name }: FaultyCell): string[] {
  const { code, message, line, column, length } = problem;
  const text = source.split('\n')[line] ?? '';
  const mark = '~'.repeat(Math.max(1, Math.min(length, text.length - column)));
  return [
    `${name}:${line + 1}:${column + 1} - error TS${code}: ${message}`,
    `    ${text}`,
    `    ${text.slice(0, column).replace(/\S/g, ' ')}${mark}`,
  ];
}
