import { foundText, plainText } from '../../src/claims/figures/claim-words';
import { numberOf, VERDICTS } from '../../src/claims/finding';
import type { ClaimResult } from '../../src/claims/survey';
import type { Notebook } from './executed';
import { figuresOf, textOf } from './sentences';

type Results = ReadonlyMap<string, ClaimResult>;

/** Sentences about the places of a notebook that show another found number or another verdict for a claim than the claim's check. */
export function doorProblems(notebook: Notebook, results: Results): string[] {
  return [...proseProblems(notebook, results), ...outputProblems(notebook, results)];
}

/** Checks the tables that the prose has: `| \`id\`, … | verdict: … |`. */
export function proseProblems({ cells }: Notebook, results: Results): string[] {
  const lines = cells.flatMap((cell) => (cell.cell_type === 'markdown' ? textLines(cell.source) : []));
  return lines.flatMap((line) => {
    const [, named = '', said = ''] = /^\| (`[^|]+) \| ([^|]+) \|$/.exec(line) ?? [];
    return idsIn(named, results).flatMap((id) => {
      const result = results.get(id);
      return result === undefined ? [] : saidProblems(id, said, result);
    });
  });
}

/** Returns the ids of a cell; '`wan.scale.32`, `.128`' and '`wan.scale.*`' stand for several. */
function idsIn(text: string, results: Results): string[] {
  let before = '';
  return [...text.matchAll(/`([\w.]+)`/g)].flatMap(([, name = '']) => {
    const id = name.startsWith('.') ? `${before.slice(0, before.lastIndexOf('.'))}${name}` : name;
    before = id;
    return results.has(id) ? [id] : [];
  });
}

function saidProblems(id: string, said: string, { finding, claim }: ClaimResult): string[] {
  // A reading may come first: 'holds only if …; off: …'.
  const after = /^(?:holds only if|no reading found)[^;]*; (.*)$/.exec(said)?.[1] ?? '';
  const judged = VERDICTS.some((verdict) => after.startsWith(verdict)) ? after : said;
  const word = [...VERDICTS]
    .sort((a, b) => b.length - a.length)
    .find((verdict) => judged.startsWith(verdict));
  const wrongWord =
    word === undefined || word === finding.verdict
      ? []
      : [`${id}: prose "${said}", verdict ${finding.verdict}`];
  const unit = claim.unit ?? finding.unit?.split(' ')[0] ?? '';
  if (unit !== 'GB' && unit !== '%') return wrongWord;
  const numbers = [...said.matchAll(/(\d[\d,]*(?:\.\d+)?)(?= ?(?:GB|%)| times)/g)].map(
    ([, text = '']) => text,
  );
  if (numbers.length === 0 || finding.verdict === 'open' || !finding.unit?.startsWith(unit)) return wrongWord;
  return numbers.some((text) => isFound(text, finding))
    ? wrongWord
    : [...wrongWord, `${id}: prose "${said}" has no found number, which is ${foundText(finding)}`];
}

/** Whether a written number is the found number, rounded to the written digits, or inside the prediction's interval. */
function isFound(text: string, finding: ClaimResult['finding']): boolean {
  const written = Number(text.replaceAll(',', ''));
  const { predicted } = finding;
  const found = Math.abs(numberOf(finding) ?? Number.NaN);
  const half = 0.5 * 10 ** -(text.split('.')[1]?.length ?? 0) + 1e-9;
  if (Math.abs(written - found) <= half) return true;
  if (typeof predicted !== 'object') return false;
  const [low, high] = [Math.abs(predicted.low), Math.abs(predicted.high)].sort((a, b) => a - b);
  return (low ?? 0) - half <= written && written <= (high ?? 0) + half;
}

/** Checks the stored tables and figures of claims, the documents' tables, and documented bytes beside plans. */
function outputProblems(notebook: Notebook, results: Results): string[] {
  const texts = notebook.cells.flatMap(({ outputs = [] }) => outputs.map(textOf));
  return [
    ...texts.flatMap((text) => claimRows(text, results)),
    ...texts.flatMap((text) => documentRows(text, results)),
    ...figuresOf(notebook).flatMap(({ rows }) => planRows(rows, results)),
  ];
}

/** Rows of claims under a heading with 'id', 'documented' and 'found'; cells may be empty, so columns are cut by position. */
function claimRows(text: string, results: Results): string[] {
  const lines = text.split('\n');
  const at = lines.findIndex((line) => /^id +documented +found +value /.test(line));
  const head = lines[at] ?? '';
  const [from, to] = [head.indexOf('found '), head.indexOf('value ')];
  return lines.slice(at < 0 ? lines.length : at + 1).flatMap((line) => {
    const [id = ''] = line.split(/\s/, 1);
    const finding = results.get(id)?.finding;
    if (finding === undefined) return [];
    const [shown = ''] = line.slice(from, to).trim().split(/ {2,}/);
    const found = plainText(foundText(finding));
    return shown === found ? [] : [`${id}: the output shows ${shown || 'no number'}, found is ${found}`];
  });
}

/** Rows of a document's table, '12.8 GB → 13.5 GB, verdict' in a cell and the claim's id at the end; only rows with one claim. */
function documentRows(text: string, results: Results): string[] {
  if (!text.includes('documented → found, verdict')) return [];
  return text.split('\n').flatMap((line) => {
    const cells = line.trim().split(/ {2,}/);
    const finding = results.get(cells.at(-1) ?? '')?.finding;
    const shown = cells.find((cell) => cell.includes(' → '));
    if (finding === undefined || shown === undefined) return [];
    const found = plainText(foundText(finding));
    return shown.includes(`→ ${found}, `)
      ? []
      : [`${cells.at(-1)}: the table shows ${shown}, found is ${found}`];
  });
}

/** Causes of a plan beside documented bytes: a cause whose claim found a number without an interval has the same number. */
function planRows(rows: readonly Readonly<Record<string, string>>[], results: Results): string[] {
  return rows.flatMap(({ cause, documentedBytes, predictedBytes = '' }) => {
    if (documentedBytes === undefined || documentedBytes === '—') return [];
    const result = [...results.values()].find(({ claim }) => claim.cause === cause);
    if (result === undefined || typeof result.finding.predicted === 'object') return [];
    const found = (numberOf(result.finding) ?? 0) * 1e9;
    const shown = Number(predictedBytes.replaceAll(',', ''));
    return Math.abs(shown - found) <= 0.001 * found
      ? []
      : [`${result.claim.id}: the plan shows ${shown} B, found is ${found} B`];
  });
}

function textLines(source: string | readonly string[]): string[] {
  return (typeof source === 'string' ? source : source.join('')).split('\n');
}
