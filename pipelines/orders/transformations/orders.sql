-- Orders of the shop and of the branches, with their customers and amounts.
select
  placed.order_id,
  coalesce(customers.name, 'unknown') as customer,
  coalesce(customers.country, 'unknown') as country,
  placed.item,
  placed.quantity,
  round(placed.quantity * placed.price, 2) as amount,
  placed.placed_at
from (
  select order_id, customer_id, item, quantity, price, placed_at from web_orders
  union all
  select order_id, customer_id, item, quantity, price, placed_at from branch_orders
) as placed
left join customers on customers.customer_id = placed.customer_id
