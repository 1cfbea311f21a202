// SPDX-License-Identifier: Apache-2.0
/** Items by what they have in common, in the order of the first ones. */
export function groupBy<K, T>(items: Iterable<T>, key: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const of = key(item);
    const known = groups.get(of);
    if (known) known.push(item);
    else groups.set(of, [item]);
  }
  return groups;
}
