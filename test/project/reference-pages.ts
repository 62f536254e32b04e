import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as ts from 'typescript';
import { COMMANDS } from '../../src/cli/commands';
import { repositoryRoot } from '../support/paths';
import { ROOT } from './sources';

// The generated parts of docs/reference, each between two comments that name it.

type Row = Readonly<Record<string, string | number | null>>;

/** The parts by their names, with the page that has each. */
export const PARTS: Readonly<
  Record<string, { readonly page: string; readonly lines: () => readonly string[] }>
> = {
  models: { page: 'models.md', lines: () => tableOf(rowsOf('models')) },
  gpus: { page: 'models.md', lines: () => tableOf(rowsOf('gpus')) },
  codes: { page: 'errors.md', lines: () => ['| code | what happened |', '|---|---|', ...codes()] },
  functions: { page: 'expressions.md', lines: () => ['| function | result |', '|---|---|', ...formulas()] },
  options: { page: 'commands.md', lines: options },
};

/** The page with its part replaced by `lines`. Throws: an Error if the page lacks the part's comments. */
export function withPart(page: string, name: string, lines: readonly string[]): string {
  const [start, end] = [`<!-- ${name}: \`npm run golden\` writes it -->\n`, `<!-- end of ${name} -->`];
  const [from, to] = [page.indexOf(start), page.indexOf(end)];
  if (from < 0 || to < 0) throw new Error(`the page has no part "${name}"`);
  return `${page.slice(0, from)}${start}\n${lines.join('\n')}\n\n${page.slice(to)}`;
}

function command(...words: readonly string[]): string {
  return execFileSync(
    process.execPath,
    [join(repositoryRoot(), 'build', 'src', 'cli', 'main.js'), ...words],
    {
      encoding: 'utf8',
      env: { ...process.env, COLUMNS: '120', NO_COLOR: '1' },
    },
  );
}

function rowsOf(name: string): readonly Row[] {
  return JSON.parse(command(name, '--json')) as readonly Row[]; // the command's documented rows
}

function tableOf(rows: readonly Row[]): readonly string[] {
  const keys = Object.keys(rows[0] ?? {});
  const cell = (value: string | number | null | undefined): string =>
    typeof value === 'number' ? value.toLocaleString('en') : String(value ?? '–');
  return [
    `| ${keys.join(' | ')} |`,
    `|${keys.map(() => '---|').join('')}`,
    ...rows.map((row) => `| ${keys.map((key) => cell(row[key]).replaceAll('|', '\\|')).join(' | ')} |`),
  ];
}

/** The codes of ShardlabError with the comments beside them. */
function codes(): readonly string[] {
  const text = readFileSync(join(ROOT, 'src', 'core', 'errors.ts'), 'utf8');
  return [...text.matchAll(/^ {2}\| '(\w+)';? \/\/ (.+)$/gm)].map(
    ([, code, says]) => `| \`${code}\` | ${says} |`,
  );
}

/** The general formulas of claims with their parameters and comments. */
function formulas(): readonly string[] {
  const path = join(ROOT, 'src', 'claims', 'formulas.ts');
  const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2022, true);
  const rows: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && node.name.getText() === 'GENERAL') {
      const { initializer } = node;
      if (initializer && ts.isObjectLiteralExpression(initializer)) {
        rows.push(...initializer.properties.map((property) => formulaRow(property, source)));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return rows;
}

function formulaRow(property: ts.ObjectLiteralElementLike, source: ts.SourceFile): string {
  const name = property.name?.getText() ?? '';
  const [comment = ''] = ts.getJSDocCommentsAndTags(property).map(({ comment: text }) => String(text ?? ''));
  const value = ts.isPropertyAssignment(property) ? property.initializer : property.name;
  const called =
    value && ts.isIdentifier(value)
      ? functionNamed(source, value.text)
      : value && ts.isArrowFunction(value)
        ? value
        : undefined;
  const parameters = called?.parameters.map((parameter) => parameter.name.getText()) ?? [];
  return `| \`${name}(${parameters.join(', ')})\` | ${comment.replaceAll('\n', ' ')} |`;
}

function functionNamed(source: ts.SourceFile, name: string): ts.FunctionDeclaration | undefined {
  return source.statements.find(
    (each): each is ts.FunctionDeclaration => ts.isFunctionDeclaration(each) && each.name?.text === name,
  );
}

function options(): readonly string[] {
  return COMMANDS.flatMap(({ name }) => [
    '',
    `### shardlab ${name}`,
    '',
    '```text',
    command(name, '--help').trim(),
    '```',
  ]);
}
