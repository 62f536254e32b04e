import { Parser, type Values } from 'expr-eval-fork';
import { ShardlabError } from '../core';

/** A value of an expression. */
export type Value = number | string | boolean;

/** Functions that expressions may call, by name. */
export type Functions = Readonly<Record<string, (...args: never[]) => Value>>;

/** Evaluates expressions of one claim. */
export interface ExpressionEvaluator {
  number(expression: string): number;
  truth(expression: string): boolean;
  /** Returns a number, a text or a truth. */
  evaluate(expression: string): unknown;
  /** Replaces each `${expression}` of a text; `#2` after it shows two decimals, `#p3` three digits, `#s3` at most three. */
  text(template: string): string;
}

const PLAIN = { abs: Math.abs, min: Math.min, max: Math.max, round: Math.round, ceil: Math.ceil };

/** Returns an evaluator with these names and functions. The evaluator throws CHECK, with the name of `owner`. */
export function evaluatorOf(
  owner: string,
  values: Readonly<Record<string, unknown>>,
  functions: Functions,
): ExpressionEvaluator {
  const parser = new Parser({ operators: { assignment: false, fndef: false, random: false } });
  parser.functions = { ...PLAIN, ...functions };
  const evaluate = (expression: string): unknown => {
    try {
      return parser.evaluate(expression, values as Values); // objects of numbers; the package's type has no booleans
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw wrong(owner, expression, reason);
    }
  };
  const number = (expression: string): number => {
    const value = evaluate(expression);
    if (typeof value === 'number' && !Number.isNaN(value)) return value;
    throw wrong(owner, expression, `the result is ${String(value)}, not a number`);
  };
  const truth = (expression: string): boolean => {
    const value = evaluate(expression);
    if (typeof value === 'boolean') return value;
    throw wrong(owner, expression, `the result is ${String(value)}, not true or false`);
  };
  const shown = (expression: string, format: string | undefined): string => {
    if (format === undefined) return String(evaluate(expression));
    const [value, digits] = [number(expression), Number(format.replace(/\D/, ''))];
    if (format.startsWith('s')) return String(Number(value.toPrecision(digits)));
    return format.startsWith('p') ? value.toPrecision(digits) : value.toFixed(digits);
  };
  const text = (template: string): string =>
    template.replaceAll(/\$\{(.+?)(?: #([ps]?\d))?\}/g, (_, expression: string, format?: string) =>
      shown(expression, format),
    );
  return { number, truth, evaluate, text };
}

/** An error quotes at most this number of characters of an expression. */
const QUOTED = 120;

function wrong(owner: string, expression: string, reason: string): ShardlabError {
  const quoted = expression.length > QUOTED ? `${expression.slice(0, QUOTED)}…` : expression;
  return new ShardlabError(
    'CHECK',
    `${owner}: '${quoted}' cannot be evaluated: ${reason}; correct the expression`,
  );
}
