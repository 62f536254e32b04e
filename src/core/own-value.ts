/**
 * Returns the value of a table for a name that others wrote. A plain index would also find what every object inherits, under names
 * such as 'constructor'.
 */
export function ownValue<Value>(
  table: Readonly<Partial<Record<string, Value>>>,
  name: string,
): Value | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
