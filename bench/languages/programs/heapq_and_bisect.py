import bisect
import heapq

amounts = [order["amount"] for order in await get_orders(user_id="u1")]
heap = []
for amount in amounts:
    heapq.heappush(heap, amount)
[heapq.nlargest(2, amounts), heapq.heappop(heap), bisect.bisect([1, 3, 5], 4)]

# topic: modules
# expect value: [[30, 12], 5, 2]
