/** More brackets within each other are not read. */
const MOST_BRACKETS = 100;

/**
 * Returns the value of integer arithmetic; the text without its blanks, so that it stays one word, if it has an unknown variable,
 * signs other than + - * / and brackets, or too many brackets within each other.
 */
export function evaluated(text: string, variable: (name: string) => string | undefined): string {
  const inner = text.replace(/^\$\((?:\(|\s*expr\s)/, '').replace(/\)?\)$/, '');
  const numbers = inner.replaceAll(/\$?\{?([A-Za-z_]\w*)\}?/g, (_, name: string) => variable(name) ?? '?');
  const tokens = numbers.replaceAll('\\', '').match(/\d+|\S/g) ?? [];
  let [at, depth] = [0, 0];
  const factor = (): number => {
    const token = tokens[at];
    at += 1;
    if (token !== '(') return Number(token ?? Number.NaN);
    depth += 1;
    const value = depth > MOST_BRACKETS ? Number.NaN : sum();
    depth -= 1;
    at += 1;
    return value;
  };
  const product = (): number => {
    let value = factor();
    while (tokens[at] === '*' || tokens[at] === '/') {
      const isDivided = tokens[at] === '/';
      at += 1;
      value = isDivided ? Math.trunc(value / factor()) : value * factor();
    }
    return value;
  };
  const sum = (): number => {
    let value = product();
    while (tokens[at] === '+' || tokens[at] === '-') {
      const sign = tokens[at] === '-' ? -1 : 1;
      at += 1;
      value += sign * product();
    }
    return value;
  };
  const result = sum();
  return Number.isFinite(result) && at === tokens.length ? String(result) : text.replaceAll(/\s+/g, '');
}
