-- One row for each customer, with the orders and what they came to.
select
  customer_id,
  max(first_name) as first_name,
  max(last_name) as last_name,
  min(order_date) as first_order,
  max(order_date) as most_recent_order,
  size(collect_set(order_id)) as number_of_orders,
  sum(amount) as customer_lifetime_value
from (
  select customer_id, first_name, last_name, null as order_id, null as order_date, null as amount from stg_customers
  union all
  select customer_id, null, null, order_id, order_date, null from stg_orders
  union all
  select customer_id, null, null, null, null, amount from customer_payments
)
group by customer_id
